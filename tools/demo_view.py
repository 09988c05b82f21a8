"""What the demo shows while it runs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
from penstock.pipelines.progress.view import BETWEEN_BATCHES

_LINE_EVERY_S = 5.0
_TOP = 6
# Columns. The demo's names and numbers fit, up to ten million lines.
_NUMBER_WIDTH = 15
_FRAME = 4
_QUERIES_WIDTH = 74
_SINKS_WIDTH = 32
_ADDRESS_WIDTH = 40  # without the bars
_SHORTEST_BAR = 6
_ALL_BESIDE = 150  # from here on all tables stand beside each other
_WIDEST = 220  # longer bars say no more
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
    written: Mapping[str, int] = field(default_factory=dict)  # rows by sink; all sinks, from the beginning
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
        self.update(lambda: render(moment, self.width), lambda: [render_line(moment)])


def render(moment: Moment, width: int) -> RenderableType:
    """As wide as the terminal, and from the first moment on as high as it will be: nothing moves when numbers grow."""
    width = min(width, _WIDEST)
    inner = width - _FRAME
    beside = inner - _QUERIES_WIDTH - _SINKS_WIDTH if width >= _ALL_BESIDE else inner - _SINKS_WIDTH
    sinks, addresses = _sinks(moment.written), _addresses(moment.top, beside - _ADDRESS_WIDTH)
    parts = [_numbers(moment)]
    if width >= _ALL_BESIDE:
        parts.append(_beside(_queries(moment.queries), sinks, addresses))
    else:
        parts += [_queries(moment.queries), _beside(sinks, addresses)]
    return Panel(Group(*parts), title=f"[bold]{moment.phase}[/]", subtitle=_clock(moment), box=box.ROUNDED, width=width)


def _beside(*tables: Table) -> Table:
    grid = Table.grid(padding=0)
    grid.add_row(*tables)
    return grid


def render_line(moment: Moment) -> str:
    return (
        f"{_clock(moment)}  {moment.phase}: produced {moment.produced:,} ({moment.produced_rate:,.0f}/s), "
        f"processed {moment.processed:,} ({moment.processed_rate:,.0f}/s), lag {moment.lag:,}, "
        f"fraud {moment.fraud_share:.1%}, top {_top_address(moment)}"
    )


def _top_address(moment: Moment) -> str:
    return f"{moment.top[0][0]} ({moment.top[0][1]:,})" if moment.top else "-"


def _clock(moment: Moment) -> str:
    if not moment.duration_s:
        return f"{moment.elapsed_s:.0f} s, Ctrl-C ends it"
    if moment.elapsed_s <= moment.duration_s:
        return f"{moment.elapsed_s:.0f} of {moment.duration_s:.0f} s"
    return f"{moment.elapsed_s:.0f} s"


def _numbers(moment: Moment) -> Table:
    table = Table.grid(padding=(0, 3, 0, 1))
    cells = (
        ("produced", f"{moment.produced:,}", f"{moment.produced_rate:,.0f} lines/s"),
        ("processed", f"{moment.processed:,}", f"{moment.processed_rate:,.0f} lines/s"),
        ("lag", f"{moment.lag:,}", "lines to go"),
        ("fraud", f"{moment.fraud_share:.1%}", "of what parsed"),
    )
    for _ in cells:
        table.add_column(min_width=_NUMBER_WIDTH, no_wrap=True)
    table.add_row(*(Text(title, style="dim") for title, _, _ in cells))
    table.add_row(*(Text(number, style="bold cyan") for _, number, _ in cells))
    table.add_row(*(Text(unit, style="dim") for _, _, unit in cells))
    return table


def _queries(queries: Sequence[QueryProgress]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("query", width=18, no_wrap=True)
    table.add_column("batch", width=6, justify="right")
    table.add_column("took", width=7, justify="right")
    table.add_column("doing", width=30, no_wrap=True)
    for query in queries:
        is_first = query.batch_id < 0
        took = "" if is_first else f"{query.batch_ms / 1000:.1f} s"
        table.add_row(query.query, "first" if is_first else str(query.batch_id), took, query.doing or BETWEEN_BATCHES)
    return table


def _sinks(written: Mapping[str, int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("written to", width=15, no_wrap=True)
    table.add_column("rows", width=10, justify="right")
    for sink, count in written.items():
        table.add_row(sink, Text(f"{count:,}", style="cyan"))
    return table


def _addresses(top: Sequence[tuple[str, int, bool]], bar_width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("top addresses", width=15)
    table.add_column("requests", width=8, justify="right")
    table.add_column("", width=5)
    has_bars = bar_width >= _SHORTEST_BAR
    if has_bars:
        table.add_column("", width=bar_width)
    most = max((requests for _, requests, _ in top), default=1)
    for address, requests, is_fraud in top:
        mark = Text("fraud", style="red") if is_fraud else ""
        bar = Bar(most, 0, requests, width=bar_width, color="red" if is_fraud else "green")
        table.add_row(address, f"{requests:,}", mark, *([bar] if has_bars else []))
    for _ in range(_TOP - len(top)):
        table.add_row("-")
    return table
