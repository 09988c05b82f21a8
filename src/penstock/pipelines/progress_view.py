"""Progress for people: a table that stays in place on a terminal, a line now and then everywhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.pipelines.progress import QueryProgress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

_LINE_EVERY_S = 10.0


@dataclass(slots=True)
class ProgressView:
    console: Console
    pipeline: str
    _live: Live | None = None
    _next_line: float = 0.0
    _shown: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self.console, refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, queries: Sequence[QueryProgress], is_last: bool = False) -> None:
        if self._live is not None:
            self._live.update(render_table(self.pipeline, queries))
        elif is_last or time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            for query in queries:
                if self._shown.get(query.query) != query.batch_id:
                    self._shown[query.query] = query.batch_id
                    self.console.print(render_line(query), highlight=False, soft_wrap=True)


def render_table(pipeline: str, queries: Sequence[QueryProgress]) -> Table:
    from rich.table import Table

    table = Table(title=f"pipeline {pipeline}", title_justify="left", expand=False)
    for name in ("query", "batch", "rows in", "rows/s", "lag", "batch time", "watermark", "rows out"):
        table.add_column(name, justify="left" if name in ("query", "watermark", "rows out") else "right")
    for query in queries:
        table.add_row(
            query.query,
            str(query.batch_id) if query.batch_id >= 0 else "starting",
            f"{query.rows:,}",
            f"{query.rows_per_second:,.0f}",
            f"{query.lag:,}",
            f"{query.batch_ms:,} ms",
            query.watermark or "-",
            _written(query, "\n"),
        )
    return table


def render_line(query: QueryProgress) -> str:
    if query.batch_id < 0:
        return f"{query.query}: starting"
    watermark = f", watermark {query.watermark}" if query.watermark else ""
    return (
        f"{query.query}: batch {query.batch_id}, {query.rows:,} rows in, {query.rows_per_second:,.0f} rows/s, "
        f"lag {query.lag:,}, {query.batch_ms:,} ms{watermark}; out: {_written(query, ', ') or 'nothing yet'}"
    )


def _written(query: QueryProgress, between: str) -> str:
    return between.join(f"{sink} {count:,}" for sink, count in query.written.items())
