"""What the row of the main job's latency makes of what it saw."""

from __future__ import annotations

from typing import Any

from bench.job_latency import Course, TimedLines, latencies, profile
from demo_lines import Kind


def report(query: str, rows: int, **milliseconds: int) -> dict[str, Any]:
    return {"name": f"ip-fraud/{query}", "numInputRows": rows, "durationMs": milliseconds}


def test_only_fraud_of_the_measured_time_counts_when_results_are_timed() -> None:
    made_at = [1.0, 10.0, 11.0, 12.0, 20.0]
    kinds = [Kind.FRAUD, Kind.FRAUD, Kind.CLEAN, Kind.FRAUD, Kind.FRAUD]
    arrived_at = {0: 2.0, 1: 13.0, 3: 13.5, 4: 21.0}
    assert latencies(made_at, kinds, arrived_at, Course(began_at=10.0, ended_at=20.0)) == ([1500, 3000], 0)


def test_results_that_did_not_come_are_counted_when_some_did() -> None:
    kinds = [Kind.FRAUD, Kind.FRAUD]
    assert latencies([10.0, 11.0], kinds, {1: 12.0}, Course(began_at=10.0, ended_at=20.0)) == ([1000], 1)


def test_phases_are_medians_of_each_query_when_batches_were_seen() -> None:
    course = Course(first_job=10, last_job=22)
    course.reports = [
        report("counts", 10, addBatch=50),
        report("main", 100, addBatch=1000, walCommit=30),
        report("main", 300, addBatch=3000, walCommit=10),
    ]
    assert profile(course) == {
        "main: batches": 2,
        "main: lines in a batch": 200,
        "main: addBatch, ms": 2000,
        "main: walCommit, ms": 20,
        "counts: batches": 1,
        "counts: lines in a batch": 10,
        "counts: addBatch, ms": 50,
        "Spark jobs for a batch of any query": 4,
    }


def test_every_line_has_its_moment_when_lines_are_taken() -> None:
    lines = TimedLines(["10"])
    lines.take(3)
    lines.take(2)
    assert len(lines.made_at) == len(lines.kinds) == 5
    assert sorted(lines.made_at) == list(lines.made_at)
