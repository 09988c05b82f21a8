"""Joins of streams and tables, as batches and as a stream."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.streams import Streams, TopologyTest, json, within
from penstock.streams.topology_test import Record

LEFTS = [Record("x", {"n": 1}, 0), Record("x", {"n": 2}, 20), Record(None, {"n": 9}, 5), Record("q", None, 5)]
RIGHTS = [
    Record("x", {"n": 7}, 10), Record("x", {"n": 8}, 11), Record("x", {"n": 6}, 31), Record("y", {"n": 4}, 5),
    Record(None, {"n": 5}, 6),
]  # fmt: skip
# key, n, n_right, time: both ends of the window count; null keys meet nobody.
JOINED = [("x", 1, 7, 10), ("x", 2, 7, 20), ("x", 2, 8, 20)]
ALONE_LEFT = [(None, 9, None, 5)]
ALONE_RIGHT = [("x", None, 6, 31), ("y", None, 4, 5), (None, None, 5, 6)]


def streams_of(how: Any) -> Streams:
    app = Streams("joins")
    left, right = (app.stream(topic, value=json("n bigint"), grace="0 seconds") for topic in ("left", "right"))
    left.join(right, how=how, window=within("10 milliseconds")).to("joined")
    return app


def joined(test: TopologyTest) -> list[tuple[Any, ...]]:
    rows = [(row.key, row.value["n"], row.value["n_right"], row.timestamp) for row in test.read("joined")]
    return sorted(rows, key=str)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("inner", JOINED), ("left", JOINED + ALONE_LEFT), ("outer", JOINED + ALONE_LEFT + ALONE_RIGHT)],
)
def test_rows_meet_within_the_window_when_streams_are_joined(
    spark: SparkSession, how: str, expected: list[tuple[Any, ...]]
) -> None:
    with TopologyTest(streams_of(how), spark) as test:
        test.pipe("left", LEFTS)
        test.pipe("right", RIGHTS)
        assert joined(test) == sorted(expected, key=str)


def test_a_stream_tells_the_same_when_time_has_moved_on(spark: SparkSession) -> None:
    later = 10_000
    with TopologyTest(streams_of("outer"), spark, step=True) as test:
        test.pipe("left", LEFTS)
        test.pipe("right", RIGHTS)
        assert joined(test) == JOINED
        test.pipe("left", [Record("z", {"n": 0}, later)])
        test.pipe("right", [Record("z", {"n": 0}, later)])
        assert joined(test) == sorted([*JOINED, *ALONE_LEFT, *ALONE_RIGHT, ("z", 0, 0, later)], key=str)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {"x": {"n": 2, "n_right": 7}, "gone": None}),
        ("left", {"x": {"n": 2, "n_right": 7}, "l": {"n": 1, "n_right": None}, "gone": None}),
        (
            "outer",
            {
                "x": {"n": 2, "n_right": 7},
                "l": {"n": 1, "n_right": None},
                "r": {"n": None, "n_right": 1},
                "gone": {"n": None, "n_right": 3},
            },
        ),
    ],
)
def test_the_latest_rows_meet_when_tables_are_joined(
    spark: SparkSession, how: Any, expected: dict[str, dict[str, int | None] | None]
) -> None:
    app = Streams("tables")
    left, right = (app.table(topic, value=json("n bigint")) for topic in ("left", "right"))
    left.join(right, how=how).to("joined")
    with TopologyTest(app, spark) as test:
        # The later offset counts, whatever the time.
        rows = [("x", 1, 9), ("x", 2, 3), ("l", 1, 1), ("gone", 1, 1), ("gone", None, 2), (None, 1, 1)]
        test.pipe("left", [Record(key, None if n is None else {"n": n}, time) for key, n, time in rows])
        test.pipe("right", [Record(key, {"n": n}, 4) for key, n in (("x", 7), ("r", 1), ("gone", 3))])
        assert {row.key: row.value for row in test.read("joined")} == expected
        assert {row.timestamp for row in test.read("joined") if row.key == "x"} == {4}


def last(state: Any, row: Any) -> Any:
    return row


def test_the_latest_row_is_that_of_the_latest_time_when_streams_of_several_topics_are_merged(
    spark: SparkSession,
) -> None:
    app = Streams("merged")
    one, two = (app.stream(topic, value=json("n bigint")) for topic in ("one", "two"))
    both = one.merge(two)
    both.to_table().join(app.table("names", value=json("name string"))).to("joined")
    both.group_by_key().reduce(last, "n bigint").to("reduced")
    with TopologyTest(app, spark) as test:
        test.pipe("one", [Record("a", {"n": 0}, 1), Record("b", {"n": 0}, 2), Record("x", {"n": 1}, 3)])
        test.pipe("two", [Record("x", {"n": 2}, 9)])
        test.pipe("names", [Record("x", {"name": "X"}, 0)])
        assert test.read_table("joined") == {"x": {"n": 2, "name": "X"}}
        assert test.read_table("reduced")["x"] == {"n": 2}
