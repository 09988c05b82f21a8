from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.core.types import TopicPartition
from penstock.pipelines.causes import first_cause
from penstock.pipelines.kafka.offsets_json import read_reported
from penstock.pipelines.progress.metrics import ProgressCollector
from penstock.pipelines.progress.query_progress import QueryProgress, advance
from penstock.pipelines.progress.view import ProgressView, render_line, render_table
from penstock.pipelines.progress.wait_messages import Elapsed, waiting
from penstock.pipelines.runtime.postmortem import FailedBatch
from penstock.runs.records import State


def report(batch: int, rows: int, reached: Any, latest: Any) -> dict[str, Any]:
    source = {"numInputRows": rows, "endOffset": reached, "latestOffset": latest}
    return {"batchId": batch, "processedRowsPerSecond": 10.5, "batchDuration": 95, "sources": [source], "eventTime": {}}


def test_rows_add_up_and_lag_is_what_is_left_when_batches_are_reported() -> None:
    first = advance(QueryProgress("q"), report(0, 5, '{"t":{"0":5}}', '{"t":{"0":9,"1":4}}'), {"a": 5})
    second = advance(first, report(1, 4, {"t": {"0": 9, "1": 0}}, {"t": {"0": 9, "1": 4}}), {"a": 9})
    assert (first.rows, first.lag) == (5, 8)
    assert (second.rows, second.lag, second.batch_id, dict(second.written)) == (9, 4, 1, {"a": 9})


def test_rows_left_out_add_up_by_reason_when_spark_or_a_step_counts_them() -> None:
    given = report(0, 5, '{"t":{"0":5}}', '{"t":{"0":5}}') | {
        "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}, {}],
        "observedMetrics": {"penstock.left_out.count-1": {"null_keys": 4}, "mine": {"rows": 9}},
    }
    first = advance(QueryProgress("q"), given, {})
    second = advance(first, given, {})
    assert (first.left_out, second.left_out) == ({"late": 3, "null_keys": 4}, {"late": 6, "null_keys": 8})
    assert render_line(second).endswith("; left out: late 6, null keys 8")
    (family,) = [each for each in ProgressCollector("p", lambda: [second]).collect() if "left_out" in each.name]
    assert {(sample.labels["reason"], sample.value) for sample in family.samples} == {("late", 6), ("null_keys", 8)}


def test_offsets_are_empty_when_there_are_none() -> None:
    assert read_reported(None) == {}
    assert read_reported("null") == {}
    assert read_reported(17) == {}
    assert read_reported('{"rate": 5}') == {}
    assert read_reported("no JSON") == {}


def test_a_line_says_everything_when_progress_is_printed() -> None:
    progress = QueryProgress("p/main", 3, 1200, 600.0, 250, 7, "2026-01-01T00:00:00.000Z", {"out": 1190, "dead": 10})
    assert render_line(progress) == (
        "p/main: batch 3, 1,200 rows in, 600 rows/s, lag 7, 250 ms, watermark 2026-01-01T00:00:00.000Z; "
        "out: out 1,190, dead 10"
    )


def test_every_query_and_sink_has_its_series_when_metrics_are_collected() -> None:
    progress = QueryProgress("p/main", 3, 1200, 600.0, 250, 7, "", {"out": 1190})
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in ProgressCollector("p", lambda: [progress]).collect()
        for sample in metric.samples
    }
    assert found["penstock_pipeline_lag_records", "p", "p/main"] == 7
    assert found["penstock_pipeline_rows_read_total", "p", "p/main"] == 1200
    assert found["penstock_pipeline_rows_written_total", "p", "p/main", "out"] == 1190
    assert found["penstock_pipeline_batch_seconds", "p", "p/main"] == 0.25


def test_the_python_error_is_found_when_spark_wraps_it() -> None:
    text = """[STREAM_FAILED] Query [id = x] terminated with exception: Python worker failed.
org.apache.spark.SparkException: Job aborted
Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: not a number: 'x'
\tat org.apache.spark.api.python.BasePythonRunner"""
    assert first_cause(text) == "ValueError: not a number: 'x'"


def test_sparks_own_message_is_found_when_no_python_failed() -> None:
    text = "[STREAM_FAILED] Query failed: [DIVIDE_BY_ZERO] Division by zero. Use try_divide. SQLSTATE: 22012\n\tat x"
    assert first_cause(text).startswith("[STREAM_FAILED] Query failed: [DIVIDE_BY_ZERO] Division by zero.")


def test_only_what_was_read_is_named_when_a_batch_failed() -> None:
    zero, one, two = (TopicPartition("t", number) for number in range(3))
    ranges = (({zero: 5, one: 4}, {zero: 9, one: 4, two: 1}),)
    assert str(FailedBatch(3, ranges)) == ("topic t, partition 0, offsets 5 to 8; topic t, partition 2, offsets 0 to 0")


def drawn(width: int, *queries: QueryProgress) -> list[str]:
    console = Console(file=io.StringIO(), record=True, width=width)
    console.print(render_table("pipeline p, 12 s", queries, width))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_cut_when_the_table_is_drawn(width: int) -> None:
    written = {"lake": 1_200_345, "fraud_requests": 54_000}
    main = QueryProgress("fraud/main", 41, 1_234_567, 2100.4, 2500, 3210, "2026-11-16T06:00:00.000Z", written)
    text = "\n".join(drawn(width, main, QueryProgress("fraud/counts", doing="planning its first batch")))
    for part in ("pipeline p, 12 s", "41", "2.5 s", "3,210", "lake 1,200,345", "planning its first batch"):
        assert part in text
    assert "\u2026" not in text
    assert ("2026-11-16 06:00:00" in text) is (width >= 130)


def test_columns_stay_in_place_when_numbers_grow() -> None:
    small, large = (
        QueryProgress("p/main", 0, 5, 1.0, 10, 0),
        QueryProgress("p/main", 99, 5_000_000, 999, 9000, 90_000),
    )
    assert drawn(200, small)[1] == drawn(200, large)[1]


def test_a_line_says_what_is_waited_for_when_there_is_no_batch_yet() -> None:
    assert render_line(QueryProgress("p/main", doing="planning its first batch")) == "p/main: planning its first batch"


def test_what_is_waited_for_and_how_long_is_said_when_it_is_drawn() -> None:
    seconds = iter((10.0, 22.4, 22.4))
    elapsed = Elapsed("opening", lambda: "the sink lake", now=lambda: next(seconds))
    assert elapsed.text == "opening: the sink lake ... 12 s"


def test_two_lines_are_printed_when_something_is_waited_for_without_a_terminal() -> None:
    said = io.StringIO()
    with waiting(Console(file=said), "starting Spark", "Spark is up"):
        pass
    assert said.getvalue() == "starting Spark ...\nSpark is up after 0 s\n"


def test_the_end_is_told_when_it_comes_before_the_next_line_is_due() -> None:
    said = io.StringIO()
    with ProgressView(Console(file=said), "p") as view:
        view.show([QueryProgress("p/main")])
        view.show([QueryProgress("p/main", 0, 5)])
        view.show([QueryProgress("p/main", 1, 9)], is_last=True)
    assert [line.split(",")[0] for line in said.getvalue().splitlines()] == ["p/main: starting", "p/main: batch 1"]


HIDE_CURSOR = "\x1b[?25l"


@pytest.mark.parametrize(
    ("state", "title", "doing"),
    [
        (State.RUNNING, "pipeline p, 3 s", "writing to lake"),
        (State.STOPPING, "pipeline p, 3 s, stopping: batches under way come to their end", "writing to lake"),
        (State.STOPPED, "pipeline p, 3 s, stopped", "stopped"),
    ],
)
def test_the_view_says_so_when_a_run_stops(state: State, title: str, doing: str) -> None:
    seconds = iter((10.0, 13.0, 13.0))
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=120, color_system=None)
    with ProgressView(console, "p", now=lambda: next(seconds)) as view:
        view.show([QueryProgress("p/main", 0, 5, doing="writing to lake")], state, is_last=True)
    lines = [line.removeprefix(HIDE_CURSOR).strip() for line in said.getvalue().splitlines()]
    assert title in lines
    assert f"p/main: {doing}" in lines
