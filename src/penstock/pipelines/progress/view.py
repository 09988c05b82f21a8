"""Progress for people: a table on a terminal, a line per batch elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.pipelines.progress.live_view import LiveView
from penstock.pipelines.progress.query_progress import QueryProgress
from penstock.runs.records import State

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_LINE_EVERY_S = 10.0
BETWEEN_BATCHES = "between batches"
# The title's words for a run's state, where the table does not show it.
_NOTES: Mapping[str, str] = {
    State.STOPPING: ", stopping: batches under way come to their end",
    State.STOPPED: ", stopped",
    State.PAUSING: ", pausing",
    State.PAUSED: ", paused",
    State.RESTARTING: ", starting anew",
}


class Column(NamedTuple):
    title: str
    cell: Callable[[QueryProgress], str]
    min_width: int  # so wide that numbers can grow without moving the rest
    from_width: int = 0  # of the terminal; left out where there is less room
    is_number: bool = True


# In the order of the table. Prometheus and the log have the columns that a narrow terminal leaves out.
COLUMNS = (
    Column("query", lambda query: query.query, 0, is_number=False),
    Column("batch", lambda query: str(query.batch_id) if query.batch_id >= 0 else "-", 5),
    Column("took", lambda query: f"{query.batch_ms / 1000:.1f} s" if query.batch_id >= 0 else "-", 7),
    Column("lag", lambda query: f"{query.lag:,}" if query.batch_id >= 0 else "-", 9),
    Column("rows in", lambda query: f"{query.rows:,}", 12, from_width=100),
    Column("rows/s", lambda query: f"{query.rows_per_second:,.0f}", 9, from_width=110),
    Column("watermark", lambda query: _short_time(query.watermark), 19, from_width=130, is_number=False),
    Column("rows out", lambda query: _written(query, "\n") or "-", 24, is_number=False),
    Column("left out", lambda query: _left_out(query) or "-", 12, from_width=190, is_number=False),
    Column("doing", lambda query: query.doing or BETWEEN_BATCHES, 26, from_width=160, is_number=False),
)


class ProgressView(LiveView):
    def __init__(self, console: Console, pipeline: str, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, _LINE_EVERY_S, is_transient=False)
        self._pipeline = pipeline
        self._now = now
        self._began = now()
        self._told: dict[str, int] = {}  # by query: the last batch that had a line

    def show(self, queries: Sequence[QueryProgress], state: str = "", is_last: bool = False) -> None:
        """`state` is the run's, as others see it."""
        self.update(lambda: self._table(queries, state), lambda: self._news(queries), is_last)

    def _table(self, queries: Sequence[QueryProgress], state: str) -> Table:
        title = f"pipeline {self._pipeline}, {self._now() - self._began:.0f} s{_NOTES.get(state, '')}"
        if state == State.STOPPED:
            queries = [replace(query, doing="stopped") for query in queries]
        return render_table(title, queries, self.width)

    def _news(self, queries: Sequence[QueryProgress]) -> Iterator[str]:
        for query in queries:
            if self._told.get(query.query) != query.batch_id:
                self._told[query.query] = query.batch_id
                yield render_line(query)


def render_table(title: str, queries: Sequence[QueryProgress], width: int) -> Table:
    from rich.table import Table

    chosen = [column for column in COLUMNS if width >= column.from_width]
    has_room = any(column.title == "doing" for column in chosen)
    table = Table(title=title, title_justify="left", expand=False)
    for column in chosen:
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            min_width=column.min_width,
            no_wrap=True,
        )
    for query in queries:
        table.add_row(*(column.cell(query) for column in chosen))
    if not has_room:
        doing = [f"{query.query}: {query.doing or BETWEEN_BATCHES}" for query in queries]
        table.caption, table.caption_justify = "\n".join(doing), "left"
    return table


def render_line(query: QueryProgress) -> str:
    if query.batch_id < 0:
        return f"{query.query}: {query.doing or 'starting'}"
    watermark = f", watermark {query.watermark}" if query.watermark else ""
    return (
        f"{query.query}: batch {query.batch_id}, {query.rows:,} rows in, {query.rows_per_second:,.0f} rows/s, "
        f"lag {query.lag:,}, {query.batch_ms:,} ms{watermark}; out: {_written(query, ', ') or 'nothing yet'}"
        f"{f'; left out: {_left_out(query)}' if query.left_out else ''}"
    )


def _written(query: QueryProgress, between: str) -> str:
    return between.join(f"{sink} {count:,}" for sink, count in query.written.items())


def _left_out(query: QueryProgress) -> str:
    return ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in query.left_out.items())


def _short_time(reported: str) -> str:
    """2026-01-01T00:00:00.000Z shortened for people; Spark gives the beginning of 1970 for none."""
    return "-" if not reported or reported.startswith("1970") else reported.partition(".")[0].replace("T", " ")
