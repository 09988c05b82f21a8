"""`--follow`: the rows of each batch as they come, until Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.cli import output
from penstock.cli.commands.sql.row_printer import Printer
from penstock.cli.commands.sql.statements import explained, tell_if_cut
from penstock.cli.commands.sql.status_line import StatusLine, describe_progress
from penstock.cli.text import parse_pair
from penstock.cli.times import parse_time_ms

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipelines.runtime.spark.signals import Course
    from penstock.pipelines.sql.answers import Rows
    from penstock.pipelines.sql.followed_query import FollowOptions
    from penstock.pipelines.sql.sql_session import SqlSession

_PLACES = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}


def parse_start(place: str | None, now_ms: int) -> str:
    """earliest, latest, or a time in ISO 8601."""
    if place is None:
        return "latest"
    if place in _PLACES:
        return _PLACES[place]
    return datetime.fromtimestamp(parse_time_ms(place, now_ms) / 1000, UTC).isoformat()


def parse_watermarks(texts: Sequence[str] | None) -> dict[str, tuple[str, str]]:
    """`orders._timestamp=10 minutes` by table; without a table for every one that has the column."""
    found = {}
    for text in texts or ():
        place, delay = parse_pair(text, "[TOPIC.]COLUMN=DELAY")
        table, _, column = place.rpartition(".")
        found[table] = (column, delay.strip())
    return found


def follow_options(
    start: str | None, watermarks: Sequence[str] | None, checkpoint: Path | None, parquet: Path | None
) -> FollowOptions:
    from penstock.pipelines.sql.followed_query import FollowOptions

    return FollowOptions(
        start=parse_start(start, time.time_ns() // 1_000_000),
        watermarks=parse_watermarks(watermarks),
        checkpoint=checkpoint,
        parquet="" if parquet is None else str(parquet),
    )


def follow_statement(
    course: Course, session: SqlSession, statement: str, printer: Printer, options: FollowOptions
) -> None:
    """Returns when the stream has ended: by Ctrl-C, or by the error that is raised."""
    from penstock.pipelines.errors import PipelineError

    failed: list[BaseException] = []
    status = StatusLine()

    def show(rows: Rows) -> None:
        status.clear()
        try:
            tell_if_cut(printer(rows))
        except BrokenPipeError as error:
            failed.append(error)
            stop()

    def tell(notice: str) -> None:
        status.clear()
        output.note(notice)

    try:
        status.show(lambda _: "planning the stream ...")
        run = session.follow(statement, show, options, tell)

        def stop() -> None:
            threading.Thread(target=run.stop, daemon=True).start()

        with course.finished_by(run.stop):
            tell("Following; Ctrl-C ends it.")
            run.wait(lambda run: status.show(lambda waited_s: describe_progress(run.progress(), waited_s)))
    except PipelineError as error:
        raise explained(error) from error
    finally:
        status.clear()
    if failed:
        raise failed[0]
