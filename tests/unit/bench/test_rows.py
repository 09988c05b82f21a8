from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.report import write_document
from bench.rows import ROWS, Comparison, Row, Samples, compare


def test_median_and_ratio_are_shown_when_both_were_measured() -> None:
    samples: Samples = {"Penstock": {"produce-1k": [400, 100, 500]}, "Apache Kafka": {"produce-1k": [200, 250, 100]}}
    [comparison] = compare(samples)
    assert (comparison.ours, comparison.theirs) == (400, 200)
    assert comparison.cells() == ("produce 1 KiB, acks=all", "MB/s", "400", "200", "2.00", "2 times or more", "yes")


def test_cpu_is_the_sum_of_the_loads_when_several_were_measured() -> None:
    samples: Samples = {"Penstock": {"produce-1k.cpu": [1, 2, 3], "latency.cpu": [0.5]}, "Apache Kafka": {}}
    assert {comparison.row.key: comparison.ours for comparison in compare(samples)}["cpu"] == 2.5


@pytest.mark.parametrize(
    ("row", "ours", "theirs", "is_met"),
    [
        (Row("k", "t", "u", ratio_at_least=2), 199, 100, False),
        (Row("k", "t", "u", ratio_at_least=2), 200, 100, True),
        (Row("k", "t", "u", ratio_at_most=0.5), 50, 100, True),
        (Row("k", "t", "u", ratio_at_most=0.5), 51, 100, False),
        (Row("k", "t", "u", ratio_at_least=2), 200, None, None),
        (Row("k", "t", "u", value_at_most=80), 80, None, True),
        (Row("k", "t", "u", value_at_most=80), 81, 1000, False),
        (Row("k", "t", "u", value_at_least=80), 80, 10, True),
        (Row("k", "t", "u", value_at_least=80), 79, None, False),
        (Row("k", "t", "u"), 1, 1, None),
    ],
)
def test_goal_is_judged_when_it_can_be(row: Row, ours: float, theirs: float | None, is_met: bool | None) -> None:
    assert row.is_met(ours, theirs) is is_met


def test_result_is_replaced_and_the_rest_kept_when_the_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- result: begin -->\nold\n<!-- result: end -->\nafter\n")
    write_document([Comparison(ROWS[0], 400, 200)], 5, page)
    text = page.read_text()
    assert text.startswith("before\n<!-- result: begin -->\n")
    assert text.endswith("<!-- result: end -->\nafter\n")
    assert "old" not in text
    assert "| produce 1 KiB, acks=all | MB/s | 400 | 200 | 2.00 | 2 times or more | yes |" in text


def test_page_is_refused_when_it_has_no_place_for_the_result(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(BenchError, match="no place for the result"):
        write_document([], 5, page)


def test_the_worst_round_is_judged_beside_the_median_when_there_were_several() -> None:
    samples: Samples = {"Penstock": {"steady-p99": [100, 900, 200]}, "Apache Kafka": {"steady-p99": [1000, 1500, 800]}}
    found = {comparison.row.key: comparison for comparison in compare(samples)}
    assert (found["steady-p99"].ours, found["steady-p99"].is_met) == (200, True)
    worst = found["steady-p99.worst"]
    assert (worst.ours, worst.theirs, worst.is_met) == (900, 1500, False)
