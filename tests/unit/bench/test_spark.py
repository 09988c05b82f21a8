"""What the comparison with Spark's connector asks for and makes of the answers."""

from __future__ import annotations

from bench.spark import SparkResult, choose_connectors
from bench.spark_report import document_lines
from bench.spark_rows import compare
from bench.spark_works import OFFICIAL, PENSTOCK, Spec


def result(**changes: object) -> SparkResult:
    made = SparkResult(
        samples={
            PENSTOCK: {"write": [90.0, 100.0, 120.0], "write-once": [60.0, 80.0, 90.0], "latency": [110.0]},
            OFFICIAL: {"write": [50.0, 100.0, 80.0], "latency": [100.0]},
        },
        profiles={"job": {"sink lake": 1.5}, "job-latency": {"main: addBatch, ms": 1200.0}},
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_medians_are_compared_when_both_were_measured() -> None:
    found = {each.row.key: each for each in compare(result())}
    assert (found["write"].ours, found["write"].theirs, found["write"].is_met) == (100.0, 80.0, True)
    assert (found["latency"].ours, found["latency"].is_met) == (110.0, True)


def test_exactly_once_is_judged_by_our_own_speed_when_both_were_measured() -> None:
    found = {each.row.key: each for each in compare(result())}
    assert (found["write-once-share"].ours, found["write-once-share"].is_met) == (80.0, True)


def test_our_figures_are_shown_and_the_reason_told_when_the_connector_is_missing() -> None:
    alone = result(missing="Maven is missing", samples={PENSTOCK: {"write": [100.0]}, OFFICIAL: {}})
    lines = document_lines(alone, rounds=1)
    assert "| write, at least once | rows/s | 100 |  |  | 1 times or more |  |" in lines
    assert "Not compared with Spark's own connector: Maven is missing." in lines
    assert "| sink lake | 1.50 |" in lines
    assert "| main: addBatch, ms | 1,200.00 |" in lines


def test_the_two_take_turns_when_both_can_do_it() -> None:
    assert choose_connectors("write", 0, is_alone=False) == (PENSTOCK, OFFICIAL)
    assert choose_connectors("write", 1, is_alone=False) == (OFFICIAL, PENSTOCK)
    assert choose_connectors("write-once", 1, is_alone=False) == (PENSTOCK,)
    assert choose_connectors("write", 1, is_alone=True) == (PENSTOCK,)


def test_a_spec_is_the_same_when_it_has_been_json() -> None:
    spec = Spec("write", PENSTOCK, "127.0.0.1:9092", "in", "out", 10, 5, "/tmp/x", ("a.jar",))
    assert Spec.from_json(spec.to_json()) == spec
