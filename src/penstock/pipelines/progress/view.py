"""Progress for people: a table on a terminal, a line per batch elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.progress.live_view import LiveView
from penstock.pipelines.progress.query_progress import QueryProgress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LINE_EVERY_S = 10.0


class ProgressView(LiveView):
    def __init__(self, console: Console, pipeline: str) -> None:
        super().__init__(console, _LINE_EVERY_S, is_transient=False)
        self._pipeline = pipeline
        self._told: dict[str, int] = {}  # by query: the last batch that had a line

    def show(self, queries: Sequence[QueryProgress], is_last: bool = False) -> None:
        self.update(lambda: render_table(self._pipeline, queries), lambda: self._news(queries), is_last)

    def _news(self, queries: Sequence[QueryProgress]) -> Iterator[str]:
        for query in queries:
            if self._told.get(query.query) != query.batch_id:
                self._told[query.query] = query.batch_id
                yield render_line(query)


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
