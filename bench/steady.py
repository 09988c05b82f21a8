"""End-to-end latency at a steady rate: from handing a record to a producer until a consumer hands it out."""

from __future__ import annotations

import struct
import threading
import time

import confluent_kafka

from bench.contenders import CpuMeter, Served
from bench.errors import BenchError
from bench.loads import PATIENCE_S, Figures, Scale, client_settings, latency_figures, topic_of
from penstock.testing.processes import ServerProcess

RECORDS_PER_SECOND = 1000
VALUE_BYTES = 1024
WARM_UP_SECONDS = 2
STEADY_PERCENTS = (50, 99, 99.9)
# What a value begins with: when the record was sent, by the clock that the consumer reads too.
SENT_NS = struct.Struct(">q")
_PADDING = bytes(VALUE_BYTES - SENT_NS.size)

PRODUCER = {"acks": "all", "linger.ms": 0}
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "fetch.min.bytes": 1,
    # After an empty fetch the next one follows at once.
    "fetch.error.backoff.ms": 0,
}


def measure_steady(server: ServerProcess, scale: Scale) -> Figures:
    meter = CpuMeter()
    with topic_of(server) as topic, meter.running(server):
        latencies = latencies_end_to_end(server, topic, scale.steady_seconds, WARM_UP_SECONDS)
    return latency_figures("steady", latencies, STEADY_PERCENTS, meter)


def latencies_end_to_end(server: Served, topic: str, seconds: int, warm_up_seconds: int) -> list[int]:
    """Nanoseconds of each record of a new topic, in order; those of the first seconds are left out."""
    left_out = RECORDS_PER_SECOND * warm_up_seconds
    count = left_out + RECORDS_PER_SECOND * seconds
    latencies: list[int] = []
    consumer = confluent_kafka.Consumer({**client_settings(server), **CONSUMER})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 1)])  # behind the record that created it
        sending = threading.Thread(target=send_steadily, args=(server, topic, count), daemon=True)
        sending.start()
        receive(consumer, count, latencies)
        sending.join(PATIENCE_S)
    finally:
        consumer.close()
    return sorted(latencies[left_out:])


def send_steadily(server: Served, topic: str, count: int) -> None:
    """By the clock: a record that is late does not make the next ones late."""
    producer = confluent_kafka.Producer({**client_settings(server), **PRODUCER})
    producer.list_topics(topic, timeout=PATIENCE_S)
    begun = time.perf_counter_ns()
    for number in range(count):
        due = begun + number * 1_000_000_000 // RECORDS_PER_SECOND
        early_ns = due - time.perf_counter_ns()
        if early_ns > 0:
            time.sleep(early_ns / 1e9)
        producer.produce(topic, SENT_NS.pack(time.perf_counter_ns()) + _PADDING, partition=0)
        producer.poll(0)
    producer.flush(PATIENCE_S)


def receive(consumer: confluent_kafka.Consumer, count: int, latencies: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(latencies) < count:
        message = consumer.poll(0.5)
        now = time.perf_counter_ns()
        if message is None or message.error() is not None:
            if time.monotonic() > deadline:
                raise BenchError(f"{len(latencies)} of {count} records arrived within {PATIENCE_S} s")
            continue
        value = message.value()
        assert value is not None
        latencies.append(now - SENT_NS.unpack_from(value)[0])
