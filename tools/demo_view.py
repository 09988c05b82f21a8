"""What the demo shows while it runs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer
from rich import box
from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.pipelines.progress.live_view import LiveView
from penstock.pipelines.progress.query_progress import QueryProgress

_LINE_EVERY_S = 5.0
_TOP = 6
_BAR_WIDTH = 24
_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Moment:
    """All that is shown at one time."""

    phase: str
    elapsed_s: float
    duration_s: float  # 0: until interrupted
    produced: int
    produced_rate: float
    processed: int
    processed_rate: float
    lag: int
    fraud_share: float
    queries: Sequence[QueryProgress] = ()
    top: Sequence[tuple[str, int, bool]] = ()  # address, requests, is it fraud


@dataclass(slots=True)
class Rate:
    """Of a number that grows: per second, over the last seconds, so that batches do not make it jump."""

    window_s: float = 10.0
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, now: float, value: int) -> float:
        self._seen.append((now, value))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self.window_s:
            self._seen.popleft()
        (then, before), span = self._seen[0], now - self._seen[0][0]
        return (value - before) / span if span > 0 and then < now else 0.0


@dataclass(slots=True)
class TopAddresses:
    """Who asks most, read from the topic of counts as the job writes it; of the newest windows alone, to stay small."""

    is_fraud: Callable[[str], bool]
    windows: int = 5
    _requests: dict[str, dict[str, int]] = field(default_factory=dict)  # by window, by address

    def poll(self, reader: Consumer) -> None:
        for message in reader.consume(_AT_ONCE, timeout=0):
            if message.error() is None:
                self.note(message.value() or b"{}")

    def note(self, value: bytes) -> None:
        count = json.loads(value)
        start = count["window_start"]
        if start not in self._requests and len(self._requests) >= self.windows:
            oldest = min(self._requests)
            if start < oldest:
                return
            del self._requests[oldest]
        self._requests.setdefault(start, {})[count["address"]] = count["requests"]

    def top(self, count: int = _TOP) -> list[tuple[str, int, bool]]:
        totals: dict[str, int] = {}
        for addresses in self._requests.values():
            for address, requests in addresses.items():
                totals[address] = totals.get(address, 0) + requests
        first = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:count]
        return [(address, requests, self.is_fraud(address)) for address, requests in first]


class DemoView(LiveView):
    def __init__(self, console: Console) -> None:
        super().__init__(console, _LINE_EVERY_S, is_transient=True)

    def show(self, moment: Moment) -> None:
        self.update(lambda: render(moment), lambda: [render_line(moment)])


def render(moment: Moment) -> RenderableType:
    parts: list[RenderableType] = [_numbers(moment), _queries(moment.queries)]
    if moment.top:
        parts.append(_addresses(moment.top))
    return Panel(Group(*parts), title=f"[bold]{moment.phase}[/]", subtitle=_clock(moment), box=box.ROUNDED, width=96)


def render_line(moment: Moment) -> str:
    return (
        f"{_clock(moment)}  {moment.phase}: produced {moment.produced:,} ({moment.produced_rate:,.0f}/s), "
        f"processed {moment.processed:,} ({moment.processed_rate:,.0f}/s), lag {moment.lag:,}, "
        f"fraud {moment.fraud_share:.1%}, top {_top_address(moment)}"
    )


def _top_address(moment: Moment) -> str:
    return f"{moment.top[0][0]} ({moment.top[0][1]:,})" if moment.top else "-"


def _clock(moment: Moment) -> str:
    of = f" of {moment.duration_s:.0f} s" if moment.duration_s else " s, Ctrl-C ends it"
    return f"{moment.elapsed_s:.0f}{of}"


def _numbers(moment: Moment) -> Table:
    table = Table.grid(padding=(0, 3))
    cells = (
        ("produced", f"{moment.produced:,}", f"{moment.produced_rate:,.0f} lines/s"),
        ("processed", f"{moment.processed:,}", f"{moment.processed_rate:,.0f} lines/s"),
        ("lag", f"{moment.lag:,}", "lines to go"),
        ("fraud", f"{moment.fraud_share:.1%}", "of what parsed"),
    )
    table.add_row(*(Text(title, style="dim") for title, _, _ in cells))
    table.add_row(*(Text(number, style="bold cyan") for _, number, _ in cells))
    table.add_row(*(Text(unit, style="dim") for _, _, unit in cells))
    return table


def _queries(queries: Sequence[QueryProgress]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True)
    for name in ("query", "batch", "batch time", "rows out"):
        table.add_column(name, justify="right" if name.startswith("batch") else "left")
    for query in queries:
        is_starting = query.batch_id < 0
        table.add_row(
            query.query,
            "starting" if is_starting else str(query.batch_id),
            "" if is_starting else f"{query.batch_ms / 1000:.1f} s",
            "  ".join(f"{sink} [cyan]{count:,}[/]" for sink, count in query.written.items()),
        )
    return table


def _addresses(top: Sequence[tuple[str, int, bool]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("top addresses", min_width=15)
    table.add_column("requests", justify="right")
    table.add_column("", width=_BAR_WIDTH)
    table.add_column("")
    most = max(requests for _, requests, _ in top)
    for address, requests, is_fraud in top:
        color = "red" if is_fraud else "green"
        bar = Bar(most, 0, requests, width=_BAR_WIDTH, color=color)
        table.add_row(address, f"{requests:,}", bar, Text("fraud", style="red") if is_fraud else "")
    return table
