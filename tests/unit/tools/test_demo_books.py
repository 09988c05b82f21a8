from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from demo_books import Entry, Found, check_books, compare_ids
from demo_lines import Kind
from demo_report import verdict

KINDS = bytes([Kind.CLEAN, Kind.FRAUD, Kind.MALFORMED, Kind.CLEAN, Kind.FRAUD])


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


RIGHT = Found(
    lake=ids(4, 3, 1, 0),
    dead_letters=ids(2),
    fraud_topic=ids(4, 1),
    fraud_table=ids(1, 4),
    counted=4,
    end_offsets=5,
    committed={"job": 5, "job-counts": 5},
)


def wrong(found: Found) -> dict[str, tuple[int, int]]:
    return {entry.what: (entry.missing, entry.extra) for entry in check_books(KINDS, found) if not entry.is_right}


def test_the_books_balance_when_every_line_is_where_it_belongs() -> None:
    assert wrong(RIGHT) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            {"lake": ids(4, 3, 1)},
            {"lines in the lake or among the dead letters": (1, 0), "parsed lines in the lake": (1, 0)},
            id="missing from the lake",
        ),
        pytest.param(
            {"lake": ids(4, 3, 1, 0, 0)},
            {"lines in the lake or among the dead letters": (0, 1), "parsed lines in the lake": (0, 1)},
            id="twice in the lake",
        ),
        pytest.param(
            {"lake": ids(4, 3, 1, 0, 2), "dead_letters": ids()},
            {"parsed lines in the lake": (0, 1), "malformed lines among the dead letters": (1, 0)},
            id="a malformed line taken for good",
        ),
        pytest.param({"fraud_topic": ids(4)}, {"fraud in the topic": (1, 0)}, id="missing from the topic"),
        pytest.param({"fraud_topic": ids(4, 3)}, {"fraud in the topic": (1, 1)}, id="another in its place"),
        pytest.param({"fraud_table": ids(1, 4, 4)}, {"fraud in the Hive table": (0, 1)}, id="twice in the table"),
        pytest.param({"fraud_table": ids(1, 4, -1)}, {"fraud in the Hive table": (0, 1)}, id="a row without a number"),
        pytest.param({"fraud_table": ids(1, 4, 77)}, {"fraud in the Hive table": (0, 1)}, id="a row never produced"),
        pytest.param({"counted": 3}, {"requests in the counts": (1, 0)}, id="not counted"),
        pytest.param({"counted": 6}, {"requests in the counts": (0, 2)}, id="counted twice"),
        pytest.param({"committed": {"job": 4}}, {"offsets committed by job": (1, 0)}, id="behind"),
    ],
)
def test_the_books_say_what_is_wrong_when_a_line_is_missing_or_doubled(
    change: dict[str, Any], expected: dict[str, tuple[int, int]]
) -> None:
    assert wrong(replace(RIGHT, **change)) == expected


def test_all_is_missing_when_nothing_is_found() -> None:
    assert compare_ids("x", np.array([True, False, True]), ids()) == Entry("x", 2, 0, missing=2, extra=0)


def test_the_verdict_counts_what_is_wrong_when_there_is_something() -> None:
    assert "right" in verdict(Entry("x", 2, 2))
    assert "1 missing, 2,000 too many" in verdict(Entry("x", 1, 2000, 1, 2000))
