"""Whatever an application is made of, and however its rows are split into steps: rows at once give the same end.

Not in `properties`, since it needs the one Spark session of these tests. The few examples are the same in every run;
PENSTOCK_STREAMS_EXAMPLES=200 tries others, each time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.streams import Stream, Streams, Table, TopologyTest, hopping, json, session, sliding, tumbling, within
from penstock.streams.topology_test import Record

DAY_MS = 24 * 3600 * 1000
OVER = "over"  # the key and the group of the records that close all windows; what they give is not compared
FEW = 4
EXAMPLES = int(os.environ.get("PENSTOCK_STREAMS_EXAMPLES", str(FEW)))
COLUMNS = "g string, n int"
GRACE = "1 hour"  # all records are of a few minutes: none is late, however they come

# Stream to stream, without state. Each leaves the columns g and n.
LINKS: dict[str, Callable[[Stream], Stream]] = {
    "filter": lambda rows: rows.filter("n > 1"),
    "filter_not": lambda rows: rows.filter_not("n = 2"),
    "map": lambda rows: rows.map(n="n + 1"),
    "select": lambda rows: rows.select("g", "n * 2 AS n"),
    "flat_map": lambda rows: rows.flat_map("array(n, n + 10)", into="n"),
    "select_key": lambda rows: rows.select_key("g"),
    "merge": lambda rows: rows.merge(rows.filter("n > 2")),
    "split": lambda rows: rows.split(large="n > 2", rest="small")["small"],
    "repartition": lambda rows: rows.repartition("again"),
    "map_rows": lambda rows: rows.map_rows(add_one, COLUMNS),
}


def add_one(row: dict[str, Any]) -> dict[str, Any]:
    return {"g": row["g"], "n": None if row["n"] is None else row["n"] + 1}


def add_up(state: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    before = state or {"total": 0, "last": None}
    return {"total": before["total"] + (row["n"] or 0), "last": row["n"]}


@dataclass(frozen=True)
class End:
    """`make` writes the topic `out`. With `is_ordered`, what comes out depends on the order of the rows."""

    make: Callable[[Stream, Stream, Table], None]
    is_table: bool = True
    is_ordered: bool = False
    # A group that all rows have left stays with a count of 0; one whose rows came and left in one step was never there.
    counted: str | None = None


ENDS: dict[str, End] = {
    "none": End(lambda a, b, t: a.to("out"), is_table=False),
    "count": End(lambda a, b, t: a.group_by("g").count(name="counts").to("out")),
    "aggregate": End(
        lambda a, b, t: a.group_by("g", even="n % 2 = 0").aggregate(s="sum(n)", low="min(n)", high="max(n)").to("out")
    ),
    "by key": End(lambda a, b, t: a.group_by_key().aggregate(s="sum(n)").filter("s > 3").to("out")),
    "tumbling": End(lambda a, b, t: a.group_by("g").windowed(tumbling("1 minute", GRACE)).count().to("out")),
    "final": End(lambda a, b, t: a.group_by("g").windowed(tumbling("1 minute", GRACE), final=True).count().to("out")),
    "hopping": End(
        lambda a, b, t: a.group_by_key().windowed(hopping("1 minute", "20 seconds", GRACE)).count().to("out")
    ),
    "session": End(
        lambda a, b, t: a.group_by("g").windowed(session("20 seconds", GRACE)).aggregate(s="sum(n)").to("out")
    ),
    "cogroup": End(
        lambda a, b, t: (
            a.group_by("g").cogroup(one="count(*)").cogroup(b.group_by("g"), two="sum(n)").aggregate().to("out")
        )
    ),
    "inner join": End(lambda a, b, t: a.join(b, window=within("30 seconds", grace=GRACE)).to("out"), is_table=False),
    "left join": End(lambda a, b, t: a.join(b, "left", window=within("30 seconds", grace=GRACE)).to("out"), False),
    "outer join": End(lambda a, b, t: a.join(b, "outer", window=within("30 seconds", grace=GRACE)).to("out"), False),
    "to_table": End(lambda a, b, t: a.to_table().filter("n > 1").to("out")),
    "table join": End(lambda a, b, t: t.join(b.to_table()).to("out")),
    "outer table join": End(lambda a, b, t: t.join(b.to_table(), "outer").to("out")),
    "deduplicate": End(lambda a, b, t: a.deduplicate("g", within="1 hour").to("out"), False, is_ordered=True),
    "stream table": End(lambda a, b, t: a.join(t).to("out"), False, is_ordered=True),
    "left stream table": End(lambda a, b, t: a.join(t, "left").to("out"), False, is_ordered=True),
    "foreign key": End(lambda a, b, t: t.join(b.to_table(), on="g").to("out")),
    "left foreign key": End(lambda a, b, t: t.join(b.to_table(), "left", on="g").to("out")),
    "regroup": End(
        lambda a, b, t: t.group_by("g").aggregate(s="sum(n)", c="count(*)", high="max(n)").to("out"), counted="c"
    ),
    "count of counts": End(
        lambda a, b, t: a.group_by("g").count().group_by(seen="count").count("groups").to("out"), counted="groups"
    ),
    "sliding": End(lambda a, b, t: a.group_by("g").windowed(sliding("30 seconds", GRACE)).count().to("out")),
    "fold": End(lambda a, b, t: a.group_by("g").fold(add_up, "total int, last int").to("out"), is_ordered=True),
}
# They have nothing of the stream that links are put into, and a link that leads nowhere is refused.
OF_TABLES = frozenset({"table join", "outer table join", "foreign key", "left foreign key", "regroup"})


@dataclass(frozen=True)
class Case:
    links: tuple[str, ...]
    end: str
    # A step: its topic and its rows.
    steps: tuple[tuple[str, tuple[Record, ...]], ...]

    def app(self) -> Streams:
        app = Streams("random")
        a, b = (app.stream(topic, value=json(COLUMNS), grace=GRACE) for topic in ("a", "b"))
        for link in self.links:
            a = LINKS[link](a)
        ENDS[self.end].make(a, b, app.table("t", value=json(COLUMNS)))
        return app


KEYS = st.sampled_from(["x", "y", "z"])
VALUES = st.one_of(st.none(), st.fixed_dictionaries({"g": st.sampled_from(["x", "y", None]), "n": st.integers(0, 4)}))
GIVEN = st.tuples(st.sampled_from("abt"), st.one_of(st.none(), KEYS), VALUES)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    end = draw(st.sampled_from(sorted(ENDS)))
    links = draw(st.lists(st.sampled_from(sorted(LINKS)), max_size=0 if end in OF_TABLES else 2, unique=True))
    given_records = draw(st.lists(GIVEN, min_size=1, max_size=14))
    times = draw(st.lists(st.integers(0, 200), min_size=len(given_records), max_size=len(given_records), unique=True))
    if ENDS[end].is_ordered:
        times.sort()
    steps: list[tuple[str, tuple[Record, ...]]] = []
    for (topic, key, value), second in zip(given_records, times, strict=True):
        record = Record(key, value, second * 1000)
        if steps and steps[-1][0] == topic and draw(st.booleans()):
            steps[-1] = (topic, (*steps[-1][1], record))
        else:
            steps.append((topic, (record,)))
    return Case(tuple(links), end, tuple(steps))


def results(spark: SparkSession, case: Case, step: bool) -> Any:
    app = case.app()
    with TopologyTest(app, spark, step=step) as test:
        for topic, rows in case.steps:
            if topic in test.inputs:
                test.pipe(topic, rows)
        # Time moves twice: a watermark is what the batch before has seen.
        for time in (DAY_MS, DAY_MS + 1):
            for topic in test.inputs:
                test.pipe(topic, [Record(OVER, {"g": OVER, "n": 0}, time)])
        records = [record for record in test.read("out") if OVER not in str(record)]
        if ENDS[case.end].is_table:
            counted = ENDS[case.end].counted
            table = {key: row for key, row in test.read_table("out").items() if OVER not in str((key, row))}
            return {key: row for key, row in table.items() if counted is None or row[counted]}
    return Counter((str(record.key), str(record.value), record.timestamp) for record in records)


@settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES == FEW,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(case=cases())
def test_steps_end_as_rows_at_once_do_when_topology_rows_and_splits_are_random(spark: SparkSession, case: Case) -> None:
    note(case.app().describe())
    assert results(spark, case, step=True) == results(spark, case, step=False)
