"""The loads that are measured on running brokers. Each returns its figures by key; `bench.rows` says what they mean."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka.cimpl import NewTopic

from bench.contenders import CpuMeter, Served
from bench.errors import BenchError
from bench.preload import preload_uniformly
from bench.wire import (
    RawConnection,
    api_versions_request,
    metadata_request,
    produce_error,
    produce_request,
    record_batch,
)
from penstock.testing.processes import ServerProcess

Figures = dict[str, float]

PATIENCE_S = 120.0
PRODUCE_CHUNK = 2000
CONSUME_CHUNK = 10_000
# An idempotent producer keeps five requests on the way; a plain librdkafka one has no limit that matters.
FEW_IN_FLIGHT, MANY_IN_FLIGHT = 5, 64
LATENCY_VALUE_BYTES = 100

# A full queue makes librdkafka pause its fetches for a second, and the faster the broker the more often: that would
# measure the pauses. So the queue takes all that comes.
UNBOUNDED_QUEUE = {
    "queued.min.messages": 10_000_000,
    "queued.max.messages.kbytes": 2_097_151,
    "fetch.queue.backoff.ms": 1,
}

_topic_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a round does."""

    megabytes_large: int  # of 1 KiB records
    megabytes_small: int  # of 100 B records
    single_records: int
    pipelined_requests: int
    transactions: int
    steady_seconds: int
    flooded_seconds: int
    logins: int
    handshakes_seconds: int  # of each half: without the flood of handshakes, and with it
    megabytes_of_segment: int  # of the topic that is flooded
    rebalances: int
    megabytes_compacted: int
    megabytes_deleted: int
    partitions_asked_for: int
    partitions_of_a_cluster: int  # each on all three brokers
    partitions_moved: int
    http_requests: int


FULL = Scale(
    megabytes_large=512,
    megabytes_small=100,
    single_records=5000,
    pipelined_requests=30_000,
    transactions=2000,
    steady_seconds=15,
    flooded_seconds=30,
    logins=1000,
    handshakes_seconds=4,
    megabytes_of_segment=1000,
    rebalances=5,
    megabytes_compacted=1000,
    megabytes_deleted=1200,
    partitions_asked_for=10_000,
    partitions_of_a_cluster=10_000,
    partitions_moved=500,
    http_requests=20_000,
)
QUICK = Scale(
    megabytes_large=64,
    megabytes_small=10,
    single_records=1000,
    pipelined_requests=5000,
    transactions=200,
    steady_seconds=3,
    flooded_seconds=5,
    logins=200,
    handshakes_seconds=1,
    megabytes_of_segment=200,
    rebalances=1,
    megabytes_compacted=100,
    megabytes_deleted=120,
    partitions_asked_for=1_000,
    partitions_of_a_cluster=300,
    partitions_moved=50,
    http_requests=1_000,
)


def client_settings(server: Served, security: Mapping[str, str] = {}) -> dict[str, str | int | float | bool]:
    # Silent: librdkafka would log every broker that is stopped on purpose.
    return {"bootstrap.servers": server.bootstrap_servers, "log_level": 0, **security}


def create_topic(server: ServerProcess, partitions: int = 1, config: dict[str, str] | None = None) -> str:
    name = f"bench-{next(_topic_numbers)}"
    admin = confluent_kafka.admin.AdminClient(client_settings(server))
    admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result(PATIENCE_S)
    # A created topic may still be on its way to the partition's leader: ask until a record goes in.
    request = produce_request(name, 0, record_batch(b"first", now_ms()))
    deadline = time.monotonic() + PATIENCE_S
    with RawConnection(server.host, server.port) as connection:
        while (error := produce_error(connection.exchange(request), name)) != 0:
            if time.monotonic() > deadline:
                raise BenchError(f"{server.name} answers a produce to a new topic with error {error}")
            time.sleep(0.01)
    return name


@contextmanager
def topic_of(server: ServerProcess, partitions: int = 1, config: dict[str, str] | None = None) -> Iterator[str]:
    name = create_topic(server, partitions, config)
    yield name
    admin = confluent_kafka.admin.AdminClient(client_settings(server))
    admin.delete_topics([name])[name].result(PATIENCE_S)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def produce(
    server: Served,
    topic: str,
    value_bytes: int,
    count: int,
    partitions: int = 1,
    security: Mapping[str, str] = {},
) -> float:
    """Seconds until `count` records are acknowledged by all replicas, through librdkafka. The partitions take turns."""
    failures: list[str] = []
    producer = confluent_kafka.Producer(
        {
            **client_settings(server, security),
            "acks": "all",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "error_cb": lambda error: failures.append(str(error)),
        }
    )
    producer.list_topics(topic, timeout=PATIENCE_S)
    chunk = [{"value": bytes(value_bytes)} for _ in range(PRODUCE_CHUNK)]
    assert count % PRODUCE_CHUNK == 0, "whole chunks"
    started = time.perf_counter()
    deadline = time.monotonic() + PATIENCE_S
    queued = 0
    turns = itertools.cycle(range(partitions))
    while queued < count:
        try:
            queued += producer.produce_batch(topic, chunk, partition=next(turns))
        except BufferError:
            _check_alive(server, failures, deadline)
        producer.poll(0)
        # The queue is kept short enough to stay in the processor's reach and long enough to fill every request.
        while len(producer) > 100_000:
            producer.poll(0.001)
            _check_alive(server, failures, deadline)
    while producer.flush(0.5):
        _check_alive(server, failures, deadline)
    return time.perf_counter() - started


def consume(server: Served, topic: str, count: int, partitions: int = 1, security: Mapping[str, str] = {}) -> float:
    """Seconds from the first to the last of `count` records, through librdkafka."""
    settings = {"group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**client_settings(server, security), **settings, **UNBOUNDED_QUEUE})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)])
    deadline = time.monotonic() + PATIENCE_S
    first = consumer.consume(1, PATIENCE_S)
    started = time.perf_counter()
    received = len(first)
    try:
        while received < count:
            # Never more than are left: the call would wait out its time for the ones that do not come.
            messages = consumer.consume(min(CONSUME_CHUNK, count - received), 0.5)
            received += len(messages)
            if not messages:
                _check_alive(server, [], deadline)
        return time.perf_counter() - started
    finally:
        consumer.close()


def _check_alive(server: Served, failures: list[str], deadline: float) -> None:
    if not server.is_running:
        raise BenchError(f"{server.name} ended during the load")
    if time.monotonic() > deadline:
        raise BenchError(f"{server.name} did not finish the load in {PATIENCE_S} s; the client said: {failures[-3:]}")


def measure_throughput(server: ServerProcess, label: str, value_bytes: int, megabytes: int) -> Figures:
    count = megabytes * 1_000_000 // value_bytes // PRODUCE_CHUNK * PRODUCE_CHUNK
    sent_megabytes = count * value_bytes / 1_000_000
    producing, consuming = CpuMeter(), CpuMeter()
    with topic_of(server) as topic, producing.running(server):
        produce_seconds = produce(server, topic, value_bytes, count)
    with topic_of(server) as topic:
        # Not what was just produced: how large the batches of librdkafka are depends on how quickly it is answered, and
        # the consumers would read different things.
        preload_uniformly(server, topic, value_bytes, count, now_ms())
        with consuming.running(server):
            consume_seconds = consume(server, topic, count)
    return {
        **throughput_figures(f"produce-{label}", sent_megabytes / produce_seconds, producing),
        **throughput_figures(f"consume-{label}", sent_megabytes / consume_seconds, consuming),
    }


def throughput_figures(name: str, megabytes_a_second: float, meter: CpuMeter) -> Figures:
    return {name: megabytes_a_second, f"{name}.cpu": meter.seconds}


def measure_large(server: ServerProcess, scale: Scale) -> Figures:
    return measure_throughput(server, "1k", 1024, scale.megabytes_large)


def measure_small(server: ServerProcess, scale: Scale) -> Figures:
    return measure_throughput(server, "100b", 100, scale.megabytes_small)


def measure_latency(server: ServerProcess, scale: Scale) -> Figures:
    """One record at a time over one connection: the next is sent when the last is acknowledged."""
    meter = CpuMeter()
    with topic_of(server) as topic:
        latencies_of_single_records(server, topic, scale.single_records // 10)
        with meter.running(server):
            latencies = latencies_of_single_records(server, topic, scale.single_records)
    return latency_figures("latency", latencies, (50, 99), meter)


def latency_figures(name: str, latencies: list[int], percents: Sequence[float], meter: CpuMeter) -> Figures:
    """A thousandth of what was measured, the unit of the rows."""
    return {f"{name}-p{percent}": percentile(latencies, percent) / 1000 for percent in percents} | {
        f"{name}.cpu": meter.seconds
    }


def latencies_of_single_records(leader: ServerProcess, topic: str, count: int) -> list[int]:
    """Nanoseconds of each, in order, over one connection."""
    with RawConnection(leader.host, leader.port) as connection:
        return latencies_over(connection, topic, count)


def latencies_over(connection: RawConnection, topic: str, count: int) -> list[int]:
    latencies = []
    request = produce_request(topic, 0, record_batch(bytes(LATENCY_VALUE_BYTES), now_ms()))
    for _ in range(count):
        started = time.perf_counter_ns()
        response = connection.exchange(request)
        latencies.append(time.perf_counter_ns() - started)
    if error := produce_error(response, topic):
        raise BenchError(f"a produce was answered with error {error}")
    return sorted(latencies)


def percentile(ordered: list[int], percent: float) -> float:
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))])


def measure_pipelined(server: ServerProcess, scale: Scale) -> Figures:
    figures: Figures = {}
    with topic_of(server) as topic:
        produce = produce_request(topic, 0, record_batch(bytes(LATENCY_VALUE_BYTES), now_ms()))
        metadata = metadata_request(topic, may_create=False)
        for key, request, depth in (
            ("pipelined-produce-few", produce, FEW_IN_FLIGHT),
            ("pipelined-produce", produce, MANY_IN_FLIGHT),
            ("pipelined-metadata", metadata, MANY_IN_FLIGHT),
        ):
            meter = CpuMeter()
            with meter.running(server):
                figures[key], last = pipeline(server, request, scale.pipelined_requests, depth)
            figures[f"{key}.cpu"] = meter.seconds
            if request is produce:
                _require_success(server, last, topic)
    return figures


def pipeline(server: ServerProcess, request: bytes, count: int, depth: int) -> tuple[float, bytes]:
    """Requests a second with `depth` of them always on the way, and the last response."""
    with RawConnection(server.host, server.port) as connection:
        started = time.perf_counter()
        connection.send(request * depth)
        sent, received = depth, 0
        last = b""
        while received < count:
            responses = connection.receive()
            received += len(responses)
            last = responses[-1]
            more = min(len(responses), count - sent)
            if more:
                connection.send(request * more)
                sent += more
        return count / (time.perf_counter() - started), last


def _require_success(server: ServerProcess, response: bytes, topic: str) -> None:
    if error := produce_error(response, topic):
        raise BenchError(f"{server.name} answered a produce with error {error}")


def open_connections(server: ServerProcess, count: int) -> list[RawConnection]:
    """Connections that have introduced themselves and then say nothing more."""
    request = api_versions_request()
    connections = []
    for _ in range(count):
        connection = RawConnection(server.host, server.port)
        connection.exchange(request)
        connections.append(connection)
    return connections
