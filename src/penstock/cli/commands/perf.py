"""`penstock perf`: throughput and latency of a cluster, ours or Apache Kafka's."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import SETTLE_SECONDS, ClusterClient, find_partitions, list_partitions
from penstock.cli.access.offsets import find_range
from penstock.cli.commands.records.produce import Acks, Compression, producer_settings
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, explain
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.plans.consume import Remaining
from penstock.cli.plans.pace import Pace
from penstock.cli.progress import Advance, progress
from penstock.cli.text import parse_size
from penstock.cli.views.latency import Latencies
from penstock.cli.views.perf import Throughput, report_document, report_fields
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

app = typer.Typer(help="Measure throughput and latency.", no_args_is_help=True, rich_markup_mode=None)

# How often the progress bar and the delivery callbacks are looked after: seldom enough not to be what is measured.
_PROGRESS_STEP = 1000
# Different payloads in turn, so that compression does not see one record repeated.
_PAYLOADS = 64
_CONSUME_BATCH = 10_000

Topic = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)]
RecordSize = Annotated[str, typer.Option("--record-size", "-s", metavar="SIZE", help="Bytes of a value: 100, 1k.")]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="How many.")]


class _Deliveries:
    """Counts what the producer's callback reports."""

    def __init__(self, advance: Advance) -> None:
        self.latencies = Latencies()
        self.failed = 0
        self.first_failure: CliError | None = None
        self._advance = advance

    def record(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed += 1
            self.first_failure = self.first_failure or explain(error.name(), error.str(), f"topic {message.topic()}")
            return
        self.latencies.add(message.latency() * 1000)
        if self.latencies.count % _PROGRESS_STEP == 0:
            self._advance(_PROGRESS_STEP)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    records: Records = 100_000
    record_size: RecordSize = "100"
    throughput: Annotated[float | None, typer.Option(min=0.001, help="Records a second at most.")] = None


@dataclass(frozen=True, slots=True)
class SendingOptions:
    acks: Annotated[Acks, typer.Option("--acks", "-a")] = Acks.ALL
    compression: Annotated[Compression, typer.Option("--compression", "-z")] = Compression.NONE
    idempotent: Annotated[bool, typer.Option("--idempotent")] = False
    linger_ms: Annotated[float, typer.Option(min=0, help="How long a batch waits for company.")] = 5
    batch_size: Annotated[str, typer.Option(metavar="SIZE", help="A batch at most.")] = "1000000"

    def settings(self) -> dict[str, Any]:
        batches = {"linger.ms": self.linger_ms, "batch.size": parse_size(self.batch_size)}
        own = {**batches, "queue.buffering.max.messages": 100_000}
        return producer_settings(self.compression.value, self.acks.value, self.idempotent) | own


@app.command("produce")
@on_cluster
def perf_produce(
    cluster: ClusterClient, topic: Topic, load: LoadOptions, sending: SendingOptions, as_json: AsJson = False
) -> None:
    """Write records as fast as they go, and time each from send to acknowledgement."""
    records, size = load.records, parse_size(load.record_size)
    payloads = [os.urandom(size) for _ in range(_PAYLOADS)]
    producer = cluster.producer(sending.settings())
    find_partitions(producer, topic, settle_seconds=SETTLE_SECONDS)
    with progress(f"Producing to {topic}", records, enabled=not as_json) as advance:
        deliveries = _Deliveries(advance)
        started = time.monotonic()
        _produce_all(producer, topic, payloads, records, Pace(load.throughput, started), deliveries.record)
        producer.flush()
        seconds = time.monotonic() - started
    delivered = deliveries.latencies.count
    measured = Throughput(delivered, delivered * size, seconds, deliveries.failed)
    _report("produce", measured, deliveries.latencies, as_json)
    if deliveries.first_failure is not None:
        raise deliveries.first_failure


def _produce_all(
    producer: Producer,
    topic: str,
    payloads: list[bytes],
    records: int,
    pace: Pace,
    callback: Callable[[Any, Any], None],
) -> None:
    for number in range(records):
        if pace.rate is not None and (delay := pace.delay(number, time.monotonic())) > 0:
            producer.poll(delay)
            time.sleep(max(0.0, pace.delay(number, time.monotonic())))
        while True:
            try:
                producer.produce(topic, payloads[number % _PAYLOADS], on_delivery=callback)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 100 == 0:
            producer.poll(0)


@app.command("consume")
@on_cluster
def perf_consume(
    cluster: ClusterClient,
    topic: Topic,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="How many; default: all there are.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Stop when nothing came for so long.")
    ] = 10.0,
    fetch_size: Annotated[str, typer.Option(metavar="SIZE", help="One fetch of a partition at most.")] = "1m",
    as_json: AsJson = False,
) -> None:
    """Read a topic from the beginning as fast as it comes."""
    from confluent_kafka import TopicPartition as ClientPartition

    admin = cluster.admin()
    ranges = find_range(admin, [TopicPartition(topic, number) for number in list_partitions(admin, topic)])
    available = sum(map(len, ranges.values()))
    wanted = available if records is None else records
    consumer = cluster.consumer(
        {
            "group.id": f"penstock-perf-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "max.partition.fetch.bytes": parse_size(fetch_size),
        }
    )
    remaining = Remaining.plan(
        {key: span.start for key, span in ranges.items()}, {key: span.stop for key, span in ranges.items()}
    )
    with progress(f"Consuming {topic}", wanted, enabled=not as_json) as advance:
        started = time.monotonic()
        consumer.assign([ClientPartition(key.topic, key.partition, span.start) for key, span in ranges.items()])
        # A partition's end matters only where the user did not say how many records to wait for.
        measured = _consume_all(consumer, wanted, remaining if records is None else None, timeout, started, advance)
    consumer.close()
    _report("consume", measured, None, as_json)
    if records is not None and measured.records < records:
        raise CliError(f"only {measured.records:,} of {records:,} records came", f"Nothing arrived for {timeout:g} s.")


def _consume_all(
    consumer: Consumer, wanted: int, remaining: Remaining | None, timeout: float, started: float, advance: Advance
) -> Throughput:
    """Time runs to the last record, so that waiting for the end is not measured."""
    count = size = 0
    last_seen = started
    while count < wanted and not (remaining is not None and remaining.is_done):
        messages = consumer.consume(min(_CONSUME_BATCH, wanted - count), 0.1)
        before = count
        for message in messages:
            error = message.error()
            if error is None:
                count += 1
                size += len(message)
            elif error.name() != "_PARTITION_EOF":
                raise explain(error.name(), error.str())
            elif remaining is not None:
                remaining.passed(TopicPartition(message.topic() or "", message.partition() or 0), message.offset() or 0)
        now = time.monotonic()
        if count > before:
            last_seen = now
            advance(count - before)
        elif now - last_seen > timeout:
            break
    return Throughput(count, size, last_seen - started)


@dataclass(frozen=True, slots=True)
class PingOptions:
    records: Records = 1_000
    record_size: RecordSize = "100"
    acks: Annotated[Acks, typer.Option("--acks", "-a")] = Acks.ALL
    warmup: Annotated[int, typer.Option(min=0, help="Records sent before counting begins.")] = 20
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long to wait for a record.")] = 10.0


@app.command("latency")
@on_cluster
def perf_latency(cluster: ClusterClient, topic: Topic, pings: PingOptions, as_json: AsJson = False) -> None:
    """Send one record at a time and time it until a consumer has it."""
    records, size = pings.records, max(parse_size(pings.record_size), 16)
    producer = cluster.producer({**producer_settings("none", pings.acks.value, False), "linger.ms": 0})
    partition = find_partitions(producer, topic, settle_seconds=SETTLE_SECONDS)[0]
    consumer = _consumer_at_end(cluster, topic, partition)
    acknowledged, received = Latencies(), Latencies()
    with progress("Sending", records, enabled=not as_json) as advance:
        for number in range(-pings.warmup, records):
            if number == 0:
                started = time.monotonic()
            payload = uuid.uuid4().bytes.ljust(size, b"x")
            to_broker, to_consumer = _round_trip(producer, consumer, topic, partition, payload, pings.timeout)
            if number >= 0:
                acknowledged.add(to_broker)
                received.add(to_consumer)
                advance(1)
    seconds = time.monotonic() - started
    consumer.close()
    measured = Throughput(records, records * size, seconds)
    if as_json:
        document = report_document("latency", measured, received)
        output.print_json({**document, "acknowledged_ms": acknowledged.summary()})
        return
    fields = report_fields(measured, acknowledged)[:1]
    for name, latencies in (("Acknowledged", acknowledged), ("Received", received)):
        fields.append((name, report_fields(measured, latencies)[-1][1]))
    output.print_fields(fields)


def _consumer_at_end(cluster: ClusterClient, topic: str, partition: int) -> Consumer:
    from confluent_kafka import TopicPartition as ClientPartition

    key = TopicPartition(topic, partition)
    end = find_range(cluster.admin(), [key])[key].stop
    consumer = cluster.consumer(
        {
            "group.id": f"penstock-perf-{uuid.uuid4()}",
            "enable.auto.commit": False,
            # Nothing but the log's own speed should be seen: no waiting for more than one record, none between fetches.
            "fetch.wait.max.ms": 500,
            "fetch.min.bytes": 1,
            "fetch.error.backoff.ms": 1,
        }
    )
    consumer.assign([ClientPartition(topic, partition, end)])
    return consumer


def _round_trip(
    producer: Producer, consumer: Consumer, topic: str, partition: int, payload: bytes, timeout: float
) -> tuple[float, float]:
    """Milliseconds until the acknowledgement, and until the consumer has the record."""
    outcome: list[tuple[Any, float]] = []

    def note(error: Any, _message: Any) -> None:
        outcome.append((error, time.perf_counter()))

    sent = time.perf_counter()
    producer.produce(topic, payload, partition=partition, on_delivery=note)
    while not outcome:
        producer.poll(timeout)
        if time.perf_counter() - sent > timeout and not outcome:
            raise CliError(f"a record was not acknowledged within {timeout:g} s")
    error, acknowledged = outcome[0]
    if error is not None:
        raise explain(error.name(), error.str(), f"topic {topic}")
    while True:
        message = consumer.poll(timeout)
        if message is None:
            raise CliError(f"a record did not come back within {timeout:g} s", "Does somebody else write to the topic?")
        failure = message.error()
        if failure is not None:
            raise explain(failure.name(), failure.str(), f"topic {topic}")
        if message.value() == payload:
            return (acknowledged - sent) * 1000, (time.perf_counter() - sent) * 1000


def _report(kind: str, measured: Throughput, latencies: Latencies | None, as_json: bool) -> None:
    if as_json:
        output.print_json(report_document(kind, measured, latencies))
    else:
        output.print_fields(report_fields(measured, latencies))
