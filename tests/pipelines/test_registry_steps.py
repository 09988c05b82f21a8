"""Payloads by the schemas of a registry: what confluent-kafka writes comes in, and what goes out it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.pipelines import Branch, Pipeline, Settings, Step, Topic
from penstock.pipelines.errors import BatchError, PipelineError
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.runtime.step_renewal import state_of
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.steps import RegistryKey, filter_rows, from_registry, select, to_registry
from tests.clients.seen_runs import wait_until
from tests.pipelines.committed import make_topic, read_committed, unique
from tests.pipelines.schema_writers import VERSIONS, Order, OrderWriter, avro_text, read_value

FIRST: list[Order] = [{"id": number, "customer": f"c{number}", "total": 2.5 * number} for number in range(1, 5)]
SECOND: list[Order] = [{"id": 5, "customer": "c5", "total": 12.5, "note": "in a hurry"}]
THIRD: list[Order] = [{"id": 6, "customer": "c6", "total": 1.5, "note": "by header"}]


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[penstock.Registry]:
    with penstock.Registry(bootstrap, config={"kafkastore.topic": unique("_schemas")}) as registry:
        yield registry


@pytest.fixture(scope="module")
def theirs(registry: penstock.Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@dataclass
class Shop:
    """What the tests have in common: a topic of orders, a topic to come, and where dead letters go."""

    spark: SparkSession
    bootstrap: str
    url: str
    client: SchemaRegistryClient
    directory: Path
    orders: str
    paid: str
    dead: str

    def writer(self, kind: str = "AVRO") -> OrderWriter:
        return OrderWriter(self.client, self.bootstrap, self.orders, kind, self.directory)

    def settings(self, url: str = "") -> Settings:
        return Settings(
            self.bootstrap,
            str(self.directory / "checkpoint"),
            trigger="0 seconds",
            registry={"url": url or self.url},
            publish_runs=False,
        )

    def pipeline(self, *steps: Step, branch: tuple[Step, ...] = (), url: str = "", headers: bool = False) -> Pipeline:
        sink = TopicSink(self.paid, create=TopicSettings())
        return Pipeline(
            name=unique("orders"),
            sources=(Topic(self.orders, headers=headers),),
            steps=steps,
            sinks=(Branch("paid", (sink,), branch) if branch else sink,),
            dead_letters=TopicSink(self.dead, create=TopicSettings()),
            settings=self.settings(url),
        )

    def run_once(self, pipeline: Pipeline) -> None:
        run = Run(self.spark, pipeline, once=True)
        run.start()
        run.wait()

    def written(self, kind: str = "AVRO") -> list[Order]:
        messages = read_committed(self.bootstrap, self.paid)
        return [read_value(self.client, kind, message, self.directory) for message in messages]


@pytest.fixture
def shop(
    spark: SparkSession, bootstrap: str, registry: penstock.Registry, theirs: SchemaRegistryClient, tmp_path: Path
) -> Shop:
    orders = make_topic(bootstrap, "orders")
    return Shop(spark, bootstrap, registry.url, theirs, tmp_path, orders, unique("paid"), unique("dead"))


def spoil(shop: Shop, *payloads: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": shop.bootstrap})
    for payload in payloads:
        producer.produce(shop.orders, payload, "spoilt")
    assert producer.flush(30) == 0


def header(message: Message, name: str) -> str | None:
    found: dict[str, Any] = dict(message.headers() or [])
    return found[name].decode() if name in found else None


@pytest.mark.parametrize(("kind", "framing"), [("AVRO", "prefix"), ("JSON", "header"), ("PROTOBUF", "prefix")])
def test_orders_go_from_their_writers_to_their_readers_when_versions_and_framings_are_mixed(
    shop: Shop, kind: Any, framing: Any
) -> None:
    writer = shop.writer(kind)
    writer.write(0, *FIRST)
    writer.write(1, *SECOND)
    writer.write(1, *THIRD, in_header=True)
    newest = shop.client.get_latest_version(f"{shop.orders}-value").schema_id
    assert newest is not None
    spoil(shop, None, b"{}", b"\x00" + newest.to_bytes(4) + b"\x00\xff\xff", b"\x00" + (10**6).to_bytes(4) + b"\x00")
    steps = (
        from_registry(),
        filter_rows("total > 5 OR note = 'by header'"),
        to_registry(f"{shop.paid}-value", schema_type=kind, key="customer", framing=framing),
    )
    shop.run_once(shop.pipeline(*steps, headers=True))

    found = sorted(shop.written(kind), key=lambda order: order["id"])
    missing: Order = {"note": "" if kind == "PROTOBUF" else None}
    assert found == [*(order | missing for order in FIRST[2:]), *SECOND, *THIRD]
    messages = read_committed(shop.bootstrap, shop.paid)
    assert sorted(message.key() or b"" for message in messages) == [b"c3", b"c4", b"c5", b"c6"]
    assert all(("__value_schema_id" in dict(each.headers() or [])) == (framing == "header") for each in messages)
    dead = read_committed(shop.bootstrap, shop.dead)
    assert [(message.value(), header(message, "penstock.schema.id")) for message in dead] == [
        (None, None),
        (b"{}", None),
        (b"\x00" + newest.to_bytes(4) + b"\x00\xff\xff", str(newest)),
        (b"\x00" + (10**6).to_bytes(4) + b"\x00", str(10**6)),
    ]
    reasons = [header(message, "penstock.error") or "" for message in dead]
    assert reasons[0] == "the record has no value"
    assert "id of a schema" in reasons[1]
    assert reasons[2].startswith(f"schema {newest}: ")
    assert "1000000" in reasons[3]


def test_a_dead_letter_has_its_own_headers_when_one_of_them_names_the_schema(shop: Shop) -> None:
    shop.writer().write(0, FIRST[0], in_header=True)
    pipeline = shop.pipeline(from_registry(), broken_totals, to_registry(f"{shop.paid}-value"), headers=True)
    shop.run_once(pipeline)
    assert shop.written() == []
    (dead,) = read_committed(shop.bootstrap, shop.dead)
    given = dict(dead.headers() or [])
    assert given["trace"] == b"on"
    named = given["__value_schema_id"]
    assert isinstance(named, bytes)
    guid = (header(dead, "penstock.schema.id") or "").replace("-", "")
    assert named[1:].hex() == guid
    assert header(dead, "penstock.error") == "no such total"


def test_a_dead_letter_says_so_when_headers_were_not_looked_at(shop: Shop) -> None:
    shop.writer().write(0, FIRST[0], in_header=True)
    shop.run_once(shop.pipeline(from_registry(), to_registry(f"{shop.paid}-value")))
    (dead,) = read_committed(shop.bootstrap, shop.dead)
    assert "Topic(..., headers=True)" in (header(dead, "penstock.error") or "")


def broken_totals(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("source", "'no such total' AS error", "id")


def test_columns_are_those_of_the_reader_when_it_is_fixed(shop: Shop) -> None:
    shop.writer().write(0, FIRST[0])
    shop.writer().write(1, *SECOND)
    topic = shop.spark.read.format("penstock").option("kafka.bootstrap.servers", shop.bootstrap)
    rows = topic.option("subscribe", shop.orders).load()
    subject, text = f"{shop.orders}-value", avro_text(("customer", "note"))
    by_version = from_registry(subject, registry=shop.url, reader=1)(rows).drop("source")
    assert [row.asDict() for row in by_version.orderBy("id").collect()] == [
        {"error": None, **FIRST[0]},
        {"error": None} | {name: SECOND[0][name] for name in VERSIONS[0]},
    ]
    by_text = from_registry(subject, registry=shop.url, reader=text, into="order")(rows).select("order.*")
    assert sorted(tuple(row) for row in by_text.collect()) == [("c1", None), ("c5", "in a hurry")]


def test_keys_have_schemas_too_when_a_subject_is_given_for_them(shop: Shop) -> None:
    shop.writer().write(0, *FIRST)
    keyed = to_registry(
        f"{shop.paid}-value", columns=("id", "total * 2 AS double"), key=RegistryKey(f"{shop.paid}-key", "id")
    )
    shop.run_once(shop.pipeline(from_registry(), keyed))
    rows = shop.spark.read.format("penstock").option("kafka.bootstrap.servers", shop.bootstrap)
    again = rows.option("subscribe", shop.paid).load()
    keys = from_registry(f"{shop.paid}-key", registry=shop.url, of="key", into="key")(again)
    both = from_registry(f"{shop.paid}-value", registry=shop.url)(keys)
    found = both.selectExpr("error", "key.id", "id", "double").collect()
    assert sorted(tuple(row)[1:] for row in found) == [(n, n, 5.0 * n) for n in range(1, 5)]
    assert {row.error for row in found} == {None}


@contextmanager
def running(run: Run) -> Iterator[None]:
    """Waits for the run on a thread; what ends the run is raised at the end."""
    run.start()
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(run.wait)
        try:
            yield
        finally:
            run.stop()
            waiting.result(60)


@pytest.mark.parametrize(("new_columns", "note"), [("restart", "in a hurry"), ("drop", None)])
def test_new_columns_appear_or_are_dropped_when_the_schema_evolves_under_a_run(
    shop: Shop, new_columns: Any, note: str | None
) -> None:
    shop.writer().write(0, *FIRST)
    steps = (from_registry(new_columns=new_columns), to_registry(f"{shop.paid}-value"))
    run = Run(shop.spark, shop.pipeline(*steps))
    with running(run):
        wait_until(lambda: count(shop) == 4)
        subject = f"{shop.orders}-value"
        shop.client.register_schema(subject, Schema(avro_text(VERSIONS[1]), "AVRO"))
        if new_columns == "restart":
            wait_until(lambda: "version 2" in step_names(run))
        shop.writer().write(1, *SECOND)
        wait_until(lambda: count(shop) == 5)
    found = sorted(shop.written(), key=lambda order: order["id"])
    assert [order["id"] for order in found] == [1, 2, 3, 4, 5]
    assert found[4].get("note") == note
    assert ("note" in found[4]) == (new_columns == "restart")


def test_a_run_goes_on_when_the_newest_version_does_not_fit_its_sink(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.writer().write(0, *FIRST[:3])
    subject = f"{shop.orders}-value"
    run = Run(shop.spark, shop.pipeline(from_registry(new_columns="restart"), to_registry(f"{shop.paid}-value")))
    with running(run):
        wait_until(lambda: count(shop) == 3)
        shop.client.set_compatibility(subject, "NONE")
        other = avro_text(VERSIONS[0]).replace("long", "string")
        shop.client.register_schema(subject, Schema(other, "AVRO"))  # and what is written to does not take it
        wait_until(lambda: "goes on with the columns it has" in caplog.text)
        shop.writer().write(0, FIRST[3])
        wait_until(lambda: count(shop) == 4)
        assert "version 1" in step_names(run)
    assert f"not compatible with the versions of subject {shop.paid}-value" in caplog.text


def test_only_a_state_of_all_columns_changes_when_a_schema_gets_another(shop: Shop) -> None:
    shop.writer().write(0, FIRST[0])
    shop.writer().write(1, *SECOND)
    stream = shop.spark.readStream.format("penstock").option("kafka.bootstrap.servers", shop.bootstrap)
    rows = stream.option("subscribe", shop.orders).load()
    subject = f"{shop.orders}-value"
    old, new = (from_registry(subject, registry=shop.url, reader=version)(rows) for version in (1, 2))
    cases: list[tuple[bool, Callable[[DataFrame], DataFrame]]] = [
        (True, lambda orders: orders.groupBy("customer").sum("total")),
        (True, lambda orders: orders.where("total > 1").dropDuplicates(["id"])),
        (True, lambda orders: orders.select("id", "total").distinct()),
        (False, lambda orders: orders.drop("source").distinct()),
        (False, lambda orders: orders.groupBy("customer").agg({"*": "count", orders.columns[-1]: "max"})),
    ]
    for is_same, stateful in cases:
        assert state_of(stateful(old)) != []
        assert (state_of(stateful(old)) == state_of(stateful(new))) is is_same


def step_names(run: Run) -> str:
    return " ".join(str(getattr(step, "__name__", "")) for step in run.open_pipeline.steps)


def count(shop: Shop) -> int:
    return len(read_committed(shop.bootstrap, shop.paid))


def test_the_start_fails_with_the_registry_s_words_when_the_sink_s_schema_does_not_fit(shop: Shop) -> None:
    shop.writer().write(0, *FIRST)
    subject = f"{shop.paid}-value"
    other = avro_text(("id",)).replace("long", "string")
    shop.client.register_schema(subject, Schema(other, "AVRO"))
    for steps, branch in (((from_registry(), to_registry(subject)), ()), ((from_registry(),), (to_registry(subject),))):
        with pytest.raises(PipelineError, match=r"registry.*id"):
            Run(shop.spark, shop.pipeline(*steps, branch=branch), once=True).start()
    assert shop.client.get_versions(subject) == [1]
    assert read_committed(shop.bootstrap, shop.paid) == []


def test_rows_that_do_not_fit_the_sink_go_to_the_dead_letters_or_fail_a_branch(shop: Shop) -> None:
    writer = shop.writer()
    writer.write(1, *SECOND, SECOND[0] | {"id": 7, "note": None})
    strict = avro_text(("id",)).replace('"fields": [', '"fields": [{"name": "note", "type": "string"}, ')
    into = to_registry(f"{shop.paid}-value", schema=strict, columns=("id", "note"))
    shop.run_once(shop.pipeline(from_registry(), into))
    assert shop.written() == [{"note": "in a hurry", "id": 5}]
    (dead,) = read_committed(shop.bootstrap, shop.dead)
    assert dead.key() == b"7"
    assert "note" in (header(dead, "penstock.error") or "")
    writer.write(1, SECOND[0] | {"id": 8, "note": None})
    with pytest.raises(BatchError, match="does not fit the schema of"):
        shop.run_once(shop.pipeline(from_registry(), branch=(into,)))


def test_the_batch_comes_again_when_the_registry_was_out_of_reach(
    shop: Shop, bootstrap: str, spark: SparkSession, tmp_path: Path
) -> None:
    config = {"kafkastore.topic": unique("_schemas"), "schema.registry.group.id": unique("registries")}
    first = penstock.Registry(bootstrap, config=config)
    first.start()
    with SchemaRegistryClient({"url": first.url}) as client:
        writer = OrderWriter(client, bootstrap, shop.orders, "AVRO", tmp_path)
        writer.write(0, *FIRST)
        writer.write(1, *SECOND)

    def stop_registry(rows: DataFrame) -> DataFrame:
        """The driver has asked for the latest schema. The tasks ask for the other one, and find nobody."""
        first.stop()
        return rows

    pipeline = shop.pipeline(from_registry(), stop_registry, select("customer AS value"), url=first.url)
    with pytest.raises(BatchError) as failed:
        shop.run_once(pipeline)
    assert "failed at the step from_registry" in failed.value.message
    assert "http://127.0.0.1:" in failed.value.message
    assert read_committed(bootstrap, shop.paid) == []
    with pytest.raises(PipelineError, match="the schema registry cannot be reached"):
        shop.run_once(pipeline)
    with penstock.Registry(bootstrap, config=config) as second:
        shop.run_once(replace(pipeline, settings=shop.settings(second.url)))
    found = sorted((message.value() or b"").decode() for message in read_committed(bootstrap, shop.paid))
    assert found == ["c1", "c2", "c3", "c4", "c5"]


def test_a_step_says_what_it_lacks_when_it_is_not_told(shop: Shop) -> None:
    with pytest.raises(PipelineError, match="no schema registry is named"):
        from_registry("orders-value")(shop.spark.range(1).toDF("n"))
    with pytest.raises(PipelineError, match=f"from_registry.*{shop.orders}-value"):
        Run(shop.spark, shop.pipeline(from_registry()), once=True).start()
