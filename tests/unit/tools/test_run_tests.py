"""What `make test` says of the time it took."""

from __future__ import annotations

import run_tests
from pytest_reports import Case
from run_tests import SLOWEST, Part

PARTS = {
    "short": Part(0, 59.6, 20.0, [Case("t.py::test_a", 1.5)]),
    "long": Part(1, 125.0, 61.0, [Case("t.py::test_b", 100.25), Case("t.py::test_c", 0.5)]),
}


def test_parts_are_listed_by_the_time_they_took() -> None:
    assert run_tests.sum_up(PARTS, 130.0) == [
        "   2 min 5 s  long: 2 tests, 1 min 1 s of a core",
        "   1 min 0 s  short: 1 tests, 0 min 20 s of a core",
        "  2 min 10 s  all parts together, 1 min 21 s of a core",
    ]


def test_slowest_tests_of_all_parts_come_first() -> None:
    assert run_tests.list_slowest(PARTS) == [
        "   100.2 s  t.py::test_b",
        "     1.5 s  t.py::test_a",
        "     0.5 s  t.py::test_c",
    ]


def test_only_the_slowest_are_listed_when_there_are_many() -> None:
    many = Part(0, 1.0, 1.0, [Case(f"t.py::test_{number}", number) for number in range(SLOWEST + 10)])
    assert len(run_tests.list_slowest({"many": many})) == SLOWEST


def test_failures_are_named_with_their_first_line_and_so_is_a_part_that_failed_without_one() -> None:
    failed = Part(1, 1.0, 1.0, [Case("t.py::test_a", 1.0), Case("t.py::test_b", 1.0, ("ValueError: 7", "at its end"))])
    assert run_tests.list_failures({"good": PARTS["short"], "bad": failed, "killed": Part(-9, 1.0, 1.0, ())}) == [
        "failed: t.py::test_b: ValueError: 7",
        "failed: t.py::test_b: at its end",
        "failed: killed: exit code -9, and no test that failed",
    ]
