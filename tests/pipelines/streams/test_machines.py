"""Machines on Spark: on batch frames and, batch by batch, on a stream with states and timers in the state store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.pipelines.pipeline import Settings
from penstock.pipelines.steps.kinds import columns_of
from penstock.streams.lowering.context import Context
from penstock.streams.lowering.machine_nodes import (
    lower_fold,
    lower_foreign_key_join,
    lower_process,
    lower_sliding_aggregate,
    lower_stream_table_join,
    lower_table_aggregate,
)
from penstock.streams.machines.processors import Processor, list_state, map_state, value_state
from penstock.streams.planner.plan import Plan
from penstock.streams.topology.nodes import Aggregate, Fold, ForeignKeyJoin, Process, Shape, StreamTableJoin, Topology
from penstock.streams.topology.windows import Window, WindowKind
from penstock.streams.topology_test.session import session_for_tests

ORDERS = "_key string, at bigint, _offset bigint, customer bigint, price decimal(10,2), placed timestamp"
CUSTOMERS = "_key bigint, at bigint, _offset bigint, name string"


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> SparkSession:
    """One task after a shuffle, and no code to compile: the rows are few."""
    return session_for_tests(spark, Settings(parallelism=1))


@pytest.fixture
def context(small: SparkSession) -> Context:
    return Context(small, Plan(Topology("test", ()), (), {}), Settings(), is_streaming=False)


def rows_of(frame: DataFrame) -> DataFrame:
    """With the columns that rows between nodes have. A row whose value is all null has none."""
    values = [name for name in frame.columns if name not in ("_key", "at", "_offset")]
    return frame.select(
        *values,
        "_key",
        F.timestamp_millis("at").alias("_timestamp"),
        F.coalesce(*(F.col(name).cast("string") for name in values)).isNull().alias("_null"),
        F.lit(0).alias("_partition"),
        "_offset",
    )


def found(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*names).collect()), key=repr)


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]], ddl: str) -> DataFrame:
    return rows_of(spark.createDataFrame(rows, ddl))


class Visits(Processor):
    """Counts by a value, remembers by a list and a map, and tells all of it when a timer rings."""

    columns = "n bigint, last timestamp, prices array<decimal(10,2)>, by_customer bigint"
    total = value_state("n bigint, last timestamp")
    prices = list_state("price decimal(10,2)")
    customers = map_state("customer bigint", "n bigint")

    def process(self, key: Any, row: Any, context: Any) -> Any:
        before = self.total.get() or {"n": 0}
        self.total.put(n=before["n"] + 1, last=row["placed"])
        self.prices.append(price=row["price"])
        of_customer = self.customers.get(row["customer"]) or {"n": 0}
        self.customers.put(row["customer"], n=of_customer["n"] + 1)
        context.timers.after("1 second")

    def on_timer(self, key: Any, at: datetime, context: Any) -> Any:
        total = self.total.get()
        prices = [each["price"] for each in self.prices.get()]
        largest = max(each["n"] for _, each in self.customers.items())
        yield context.row({**total, "prices": prices, "by_customer": largest}, key=key.upper(), time=context.time)


def summed(state: Any, row: Any) -> Any:
    before = state or {"total": 0, "first": row["placed"]}
    return {"total": before["total"] + row["price"], "first": min(before["first"], row["placed"])}


def moment(second: int) -> datetime:
    return datetime(2026, 11, 17, 9, 0, second, 250, tzinfo=UTC)


def order(key: str | None, at: int, customer: int | None, price: int = 0) -> tuple[Any, ...]:
    from decimal import Decimal

    if customer is None:
        return (key, at, at, None, None, None)
    return (key, at, at, customer, Decimal(price), moment(at % 60))


def test_joins_by_machines_are_as_tables_say_when_the_frame_is_a_batch(small: SparkSession, context: Context) -> None:
    orders = frame_of(small, [order("a", 1, 7), order("b", 2, 8), order("c", 3, 7), order("c", 4, None)], ORDERS)
    customers = frame_of(small, [(7, 2, 0, "Ada"), (9, 3, 1, "Eve")], CUSTOMERS)
    by_customer = ForeignKeyJoin("fk", (), "left", "customer")
    joined = lower_foreign_key_join(by_customer, [orders, customers], context)
    named = [("a", 7, "Ada", False), ("b", 8, None, False)]
    assert found(joined, "_key", "customer", "name", "_null") == named
    clicks = frame_of(small, [(7, 1, 0, "early"), (7, 2, 1, "later"), (None, 3, 2, "nobody")], CUSTOMERS)
    looked_up = lower_stream_table_join(StreamTableJoin("j", (), "left"), [clicks, customers], context)
    assert found(looked_up, "name", "name_right", "_key") == [
        ("early", None, 7),
        ("later", "Ada", 7),
        ("nobody", None, None),
    ]


def test_aggregates_of_a_table_forget_old_rows_when_the_frame_is_a_batch(small: SparkSession, context: Context) -> None:
    rows = [order("a", 1, 7, 5), order("b", 2, 7, 9), order("c", 3, 8, 1), order("c", 4, 7, 2), order("d", 5, 8, 4)]
    orders = frame_of(small, [*rows, order("d", 6, None)], ORDERS)
    group = ((("customer", "customer"),),)
    sums = (("n", "count(*)"), ("total", "sum(price)"), ("mean", "avg(price)"))
    summed_up = lower_table_aggregate(Aggregate("s", (), (sums,), group, Shape.TABLE), [orders], context)
    assert [tuple(map(str, row)) for row in found(summed_up, "_key", "customer", "n", "total", "mean")] == [
        ("7", "7", "3", "16.00", "5.333333"),
    ]
    # `offset` is what a column of the machine is called, too.
    members = (("n", "count(*)"), ("offset", "min(price)"), ("all", "collect_list(placed)"), ("mean", "avg(price)"))
    listed = lower_table_aggregate(Aggregate("m", (), (members,), group, Shape.TABLE), [orders], context)
    ((key, n, least, placed, mean),) = found(listed, "_key", "n", "offset", "all", "mean")
    assert (key, n, str(least), str(mean)) == (7, 3, "2.00", "5.333333")
    assert [each.replace(tzinfo=UTC) for each in placed] == [moment(1), moment(2), moment(4)]


def test_windows_and_folds_by_machines_are_as_kafka_has_them_when_the_frame_is_a_batch(
    small: SparkSession, context: Context
) -> None:
    orders = frame_of(small, [order("a", 10, 7, 5), order("a", 15, 7, 9), order("a", 30, 8, 1)], ORDERS)
    sliding = Aggregate("w", (), ((("start", "sum(price)"),),), ((),), window=Window(WindowKind.SLIDING, 10, 10))
    slid = lower_sliding_aggregate(sliding, [orders], context)
    assert [(key.start, key.end, int(total)) for key, total in found(slid, "_key", "start")] == [
        (0, 10, 5),
        (11, 21, 9),
        (20, 30, 1),
        (5, 15, 14),
    ]
    fold = Fold("f", (), summed, "total decimal(10,2), first timestamp", None, (("customer", "customer"),))
    folded = lower_fold(fold, [orders], context)
    shown = found(folded, "_key", "customer", "total", "first")
    assert [(key, customer, int(total), first.replace(tzinfo=UTC)) for key, customer, total, first in shown] == [
        (7, 7, 14, moment(10)),
        (8, 8, 1, moment(30)),
    ]
    wrong = Fold("wrong", (), summed, "total decimal(10,2), first int", None, (("customer", "customer"),))
    with pytest.raises(Exception, match=r"wrong: what \S*summed gave does not fit STRUCT<.*first.*: \{\"total"):
        lower_fold(wrong, [orders], context).collect()
    processed = lower_process(Process("p", (), Visits, Visits.columns), [orders], context)
    assert [(key, n, largest) for key, n, largest in found(processed, "_key", "n", "by_customer")] == [("A", 3, 2)] * 3


class Stepped:
    """Queries over files, all of which take a step at once."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self._home = spark, home
        self._queries: dict[str, Any] = {}
        self._made: dict[str, list[Any]] = {}
        self._files = count()

    def read(self, name: str, ddl: str) -> DataFrame:
        (self._home / name).mkdir()
        return rows_of(self.spark.readStream.schema(ddl).parquet(str(self._home / name)))

    def start(self, name: str, rows: DataFrame) -> None:
        made = self._made[name] = []
        writer = rows.writeStream.foreachBatch(lambda frame, _: made.extend(frame.collect()))
        writer = writer.outputMode("update").option("checkpointLocation", str(self._home / f"state-{name}"))
        self._queries[name] = writer.start()

    def step(self, ddls: dict[str, str], **given: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
        """What each query has said, after rows were added."""
        for name, rows in given.items():
            schema = to_arrow_schema(columns_of(ddls[name]), timezone="UTC")
            table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
            pq.write_table(table, self._home / name / f"{next(self._files)}.parquet")
        for query in self._queries.values():
            query.processAllAvailable()
        said = {name: list(made) for name, made in self._made.items()}
        for made in self._made.values():
            made.clear()
        return said

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()


@pytest.fixture
def stepped(small: SparkSession, tmp_path: Path) -> Iterator[Stepped]:
    made = Stepped(small, tmp_path)
    yield made
    made.stop()


def test_states_and_timers_last_from_batch_to_batch_when_machines_run_on_streams(
    context: Context, stepped: Stepped
) -> None:
    ddls = {"orders": ORDERS, "customers": CUSTOMERS, "visits": ORDERS}
    orders, customers, visits = (stepped.read(name, ddl) for name, ddl in ddls.items())
    stepped.start(
        "fk", lower_foreign_key_join(ForeignKeyJoin("fk", (), "inner", "customer"), [orders, customers], context)
    )
    timed = visits.withWatermark("_timestamp", "0 seconds")
    stepped.start("told", lower_process(Process("p", (), Visits, Visits.columns), [timed], context))
    step = partial(stepped.step, ddls)
    said = step(
        orders=[order("a", 1, 7), order("b", 2, 8), order("c", 3, 7)],
        customers=[(7, 1, 0, "Ada"), (8, 1, 1, "Bob")],
        visits=[order("a", 1000, 7, 5), order("b", 1000, 7, 5), order("a", 1999, 7, 6)],
    )
    assert sorted((row["_key"], row["name"]) for row in said["fk"]) == [("a", "Ada"), ("b", "Bob"), ("c", "Ada")]
    # The watermark has not reached 2000 yet.
    assert said["told"] == []
    said = step(
        orders=[order("a", 12, 8), order("b", 13, None)],
        customers=[(7, 12, 3, "Eve")],
        visits=[order("a", 1600, 7, 7), order("c", 2000, 8, 1)],
    )
    joined = sorted((row["_key"], row["name"], row["_null"]) for row in said["fk"])
    assert joined == [("a", "Bob", False), ("b", None, True), ("c", "Eve", False)]
    told = said["told"]
    shown = [(row["_key"], row["n"], [int(price) for price in row["prices"]], row["by_customer"]) for row in told]
    assert sorted(shown) == [("A", 3, [5, 6, 7], 3), ("B", 1, [5], 1)]
    assert {row["_timestamp"].replace(tzinfo=UTC).timestamp() for row in told} == {2.0}
    assert {row["_key"]: row["last"].replace(tzinfo=UTC) for row in told}["A"] == moment(1600 % 60)
