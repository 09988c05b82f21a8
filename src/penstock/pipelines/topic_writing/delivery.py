"""Rows into a producer's queue, and what became of them. At least once, unless a transaction encloses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from penstock.pipelines.pipeline import always_wanted
from penstock.pipelines.topic_writing.errors import WriteError
from penstock.pipelines.topic_writing.layout import Calls, lay_out, lay_out_calls
from penstock.pipelines.topic_writing.librdkafka import FailedRecord, RawProducer
from penstock.pipelines.topic_writing.rows import ColumnPlan, Places, find_headers, find_places, find_timestamps

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# Failures that the error quotes; the rest are counted.
_TOLD_FAILURES = 3
# Beyond message.timeout.ms, after which librdkafka gives every record up itself.
_GRACE_S = 10.0
# Python handles a signal only between two calls.
_FLUSH_S = 1.0
# How often a full queue is looked at: nothing wakes a sender when records leave it, as only failures are reported.
_ROOM_S = 0.01


@dataclass(slots=True)
class Failures:
    """The records that were reported as failed."""

    told: list[str] = field(default_factory=list)
    count: int = 0

    def keep(self, record: FailedRecord) -> None:
        self.count += 1
        if len(self.told) < _TOLD_FAILURES:
            self.told.append(_explain(record.error, record.topic, record.partition, record.size))

    def forget(self) -> None:
        self.told.clear()
        self.count = 0

    def raise_if_any(self) -> None:
        if self.count:
            more = self.count - len(self.told)
            raise WriteError("; ".join(self.told) + (f"; and {more} more records" if more else ""))


@dataclass(slots=True)
class Sender:
    """A producer with the failures it has reported. One task at a time uses it: a Python worker runs one at a time."""

    producer: RawProducer
    timeout_s: float
    failures: Failures
    is_wanted: Callable[[], bool] = always_wanted  # of the present task: False when its rows are not needed any more

    @classmethod
    def open(cls, settings: Mapping[str, str], timeout_s: float) -> Sender:
        failures = Failures()
        producer = RawProducer({**settings, "delivery.report.only.error": "true"}, failures.keep)
        return cls(producer, timeout_s, failures)

    def close(self) -> None:
        self.producer.close()

    def begin(self, is_wanted: Callable[[], bool]) -> None:
        """For the next task."""
        self.failures.forget()
        self.is_wanted = is_wanted

    def send(self, batch: pa.RecordBatch, plan: ColumnPlan) -> None:
        """Returns when all are in the queue; WriteError as soon as one is known to have failed.

        Cost: 0.7 us a row here, and on librdkafka's threads 1.4 where keys send neighbours to different partitions,
        else 0.5. By confluent_kafka's produce(), a call a row, it was 1.7 here. For headers see `produce_each`."""
        places, headers, timestamps = find_places(batch, plan), find_headers(batch, plan), find_timestamps(batch, plan)
        messages = lay_out(batch.column(plan.value), None if plan.key is None else batch.column(plan.key))
        if headers is not None or timestamps is not None or places.is_mixed:
            messages["partition"] = places.partition_of
            calls = lay_out_calls(messages, places.topics, places.topic_of, headers, timestamps)
            self._send_each(calls, messages, places)
        else:
            for topic, partition, rows in places.groups():
                self._send_group(messages[rows], topic, partition)
        self.producer.poll(0)
        self.failures.raise_if_any()

    def _send_group(self, messages: NDArray[np.void], topic: str, partition: int) -> None:
        def send() -> int:
            nonlocal messages
            messages = self.producer.produce_batch(topic, partition, messages)
            refused = messages[messages["error"] != KafkaError._QUEUE_FULL]
            if len(refused):
                error, size = KafkaError(int(refused["error"][0])), int(refused["value_size"][0])
                raise WriteError(_explain(error, topic, partition, size))
            return len(messages)

        self._with_patience(send, topic)

    def _send_each(self, calls: Calls, messages: NDArray[np.void], places: Places) -> None:
        """Row by row: only so can records have headers and times, and rows stay in order of which some name their
        partition."""
        sent = 0

        def send() -> int:
            nonlocal sent
            taken, error = self.producer.produce_each(calls.each[sent:])
            sent += taken
            if error is not None and error.code() != KafkaError._QUEUE_FULL:
                topic, refused = places.topics[places.topic_of[sent]], messages[sent]
                raise WriteError(_explain(error, topic, int(refused["partition"]), int(refused["value_size"])))
            return len(messages) - sent

        self._with_patience(send, ", ".join(places.topics[:_TOLD_FAILURES]))

    def _with_patience(self, send: Callable[[], int], topic: str) -> None:
        """`send` returns for how many messages the queue was full. That passes: messages leave it or fail after
        message.timeout.ms."""
        patience_s = self.timeout_s + _GRACE_S
        deadline, left = time.monotonic() + patience_s, None
        while now_left := send():
            if now_left != left:
                deadline, left = time.monotonic() + patience_s, now_left
            if time.monotonic() > deadline:
                raise WriteError(f"the producer's queue stayed full for {patience_s:.0f} s; topic {topic}")
            self.producer.poll(_ROOM_S)
            self.failures.raise_if_any()
            raise_if_unwanted(self.is_wanted)

    def finish(self) -> None:
        """Returns when the brokers have confirmed every record."""
        deadline = time.monotonic() + self.timeout_s + _GRACE_S
        while left := self.producer.flush(_FLUSH_S):
            raise_if_unwanted(self.is_wanted)
            if time.monotonic() > deadline:
                break
        self.failures.raise_if_any()
        if left:
            raise WriteError(f"{left} records were not confirmed within {self.timeout_s + _GRACE_S:.0f} s")

    def discard(self) -> None:
        """Drops the records that are left in the queue: they are not needed any more."""
        self.producer.purge()


def raise_if_unwanted(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise WriteError("the query was stopped before the rows were confirmed")


_REASONS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "is too large ({size} bytes); see kafka.max.request.size and max.message.bytes",
    KafkaError.INVALID_MSG_SIZE: "is too large ({size} bytes); see max.message.bytes of the topic",
    KafkaError._UNKNOWN_PARTITION: "names a partition that the topic does not have",
    # librdkafka also gives this code for an invalid name, if it looked the name up before.
    KafkaError._UNKNOWN_TOPIC: "names a topic that does not exist, or whose name is not valid",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "names a topic or partition that does not exist",
    KafkaError.TOPIC_EXCEPTION: "names a topic whose name is not valid",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "names a topic that this user may not write to",
    KafkaError.INVALID_RECORD: "was refused by the broker; a compacted topic, for one, takes no records without a key",
    KafkaError.INVALID_TIMESTAMP: "has a time that the topic does not take; see message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms of the topic",
    # A transactional producer that heard of it between two records; of an idempotent one that does not happen.
    KafkaError._FATAL: "was not taken: another attempt at this task has taken over",
    KafkaError._MSG_TIMED_OUT: "was not confirmed in time (kafka.delivery.timeout.ms): no broker, or too slow",
}


def _explain(error: KafkaError, topic: str | None, partition: int | None, size: int) -> str:
    destination = f"topic {topic}" + (f", partition {partition}" if partition is not None and partition >= 0 else "")
    reason = _REASONS.get(error.code(), "could not be written").format(size=size)
    return f"a record for {destination} {reason} ({error.name()}: {error.str()})"
