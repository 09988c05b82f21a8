"""The line that says how far a stream has come."""

from __future__ import annotations

import io

from penstock.cli.commands.sql.status_line import StatusLine, describe_progress
from penstock.pipelines.progress.query_progress import QueryProgress


def test_what_the_stream_does_is_said_when_no_batch_is_done() -> None:
    assert describe_progress([QueryProgress("q", doing="computing a batch")], 12.4) == "computing a batch ... 12 s"


def test_counts_are_said_when_batches_are_done() -> None:
    done = QueryProgress("q", batch_id=2, rows=800, lag=1, written={"insert": 1})
    assert describe_progress([done], 60) == "800 records read, 1 row written, 1 to come"


def test_the_line_is_written_over_when_a_second_has_passed_and_goes_when_it_is_cleared() -> None:
    now, stream = 0.0, io.StringIO()
    line = StatusLine(stream, is_shown=True, clock=lambda: now)
    line.show(lambda waited_s: f"a {waited_s}")
    line.show(lambda _: "too soon")
    now = 1.0
    line.show(lambda waited_s: f"b {waited_s}")
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\x1b[Ka 0.0\r\x1b[Kb 1.0\r\x1b[K"


def test_nothing_is_written_when_nobody_watches() -> None:
    stream = io.StringIO()
    StatusLine(stream, is_shown=False).show(lambda _: "a")
    assert stream.getvalue() == ""
