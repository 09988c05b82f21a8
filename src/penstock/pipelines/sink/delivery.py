"""Rows into a producer's queue, and what became of them. At least once, unless a transaction is around it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.pipelines.sink.errors import WriteError
from penstock.pipelines.sink.rows import ANY_PARTITION, ColumnPlan, Record, to_pairs, to_records

if TYPE_CHECKING:
    import pyarrow as pa

# librdkafka's own words, for whoever wants them; what matters comes back as an exception.
_log = logging.getLogger("penstock.pipelines.librdkafka")
_log.addHandler(logging.NullHandler())

# How many failures are kept to be told; the rest are counted.
_TOLD_FAILURES = 3
# Beyond message.timeout.ms, after which librdkafka gives every record up itself.
_GRACE_S = 10.0
_POLL_S = 0.1
# How often a full queue is looked at: nothing wakes a sender when records leave it, as only failures are reported.
_ROOM_S = 0.01

_Result = TypeVar("_Result")


@dataclass(slots=True)
class Sender:
    """A producer with the failures it has reported. One task at a time uses it: a Python worker runs one at a time."""

    producer: Producer
    timeout_s: float
    failures: list[str] = field(default_factory=list)
    failure_count: int = 0

    @classmethod
    def open(cls, settings: Mapping[str, str], timeout_s: float) -> Sender:
        sender: Sender

        def keep(error: KafkaError | None, message: Message) -> None:
            sender.keep_failure(error, message)

        reports = {"on_delivery": keep, "delivery.report.only.error": True, "logger": _log}
        producer = Producer({**settings, **reports})
        sender = cls(producer, timeout_s)
        return sender

    def keep_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        self.failure_count += 1
        if len(self.failures) < _TOLD_FAILURES:
            self.failures.append(_explain(error, message.topic(), message.partition(), len(message.value() or b"")))

    def forget_failures(self) -> None:
        self.failures.clear()
        self.failure_count = 0

    def send(self, batch: pa.RecordBatch, plan: ColumnPlan) -> None:
        """Returns when all are in the queue; WriteError as soon as one is known to have failed.

        Cost: 1.3 us a row here, nearly all of it produce(), and 0.9 on librdkafka's threads. Its produce_batch() was no
        faster and knows no headers; the C function behind it takes 0.6, but called past the binding it reports no
        failures."""
        if plan.fixed_topic is not None and plan.is_plain:
            topic, produce = plan.fixed_topic, self.producer.produce
            for value, key in to_pairs(batch, plan):
                try:
                    produce(topic, value, key)
                except (BufferError, KafkaException) as error:
                    self._send_with_patience((topic, value, key, ANY_PARTITION, []), error)
        else:
            for record in to_records(batch, plan):
                self._send_one(record)
        served(self.producer.poll, 0)
        self.raise_failures()

    def _send_one(self, record: Record) -> None:
        topic, value, key, partition, headers = record
        try:
            self.producer.produce(topic, value, key, partition, headers=headers)
        except (BufferError, KafkaException) as error:
            self._send_with_patience(record, error)

    def _send_with_patience(self, record: Record, error: BufferError | KafkaException) -> None:
        """The queue was full, which passes: records leave it, or fail after message.timeout.ms."""
        topic, value, key, partition, headers = record
        deadline = time.monotonic() + self.timeout_s + _GRACE_S
        while isinstance(error, BufferError) and time.monotonic() < deadline:
            served(self.producer.poll, _ROOM_S)
            self.raise_failures()
            try:
                self.producer.produce(topic, value, key, partition, headers=headers)
            except (BufferError, KafkaException) as again:
                error = again
            else:
                return
        if isinstance(error, BufferError):
            raise WriteError(f"the producer's queue stayed full for {self.timeout_s + _GRACE_S:.0f} s; topic {topic}")
        raise WriteError(_explain(error.args[0], topic, partition, len(value or b""))) from error

    def finish(self) -> None:
        """Returns when the brokers have confirmed every record."""
        deadline = time.monotonic() + self.timeout_s + _GRACE_S
        left = served(self.producer.flush, self.timeout_s)
        while left and time.monotonic() < deadline:
            left = served(self.producer.flush, _POLL_S)
        self.raise_failures()
        if left:
            raise WriteError(f"{left} records were not confirmed within {self.timeout_s + _GRACE_S:.0f} s")

    def raise_failures(self) -> None:
        if self.failure_count:
            more = self.failure_count - len(self.failures)
            raise WriteError("; ".join(self.failures) + (f"; and {more} more records" if more else ""))

    def discard(self) -> None:
        """What is left in the queue is dropped: nobody waits for it any more."""
        self.producer.purge()


def served(call: Callable[[float], _Result], timeout_s: float) -> _Result:
    """For calls that may run our report of failures. Where the client has failed as a whole, the binding runs it with
    that error pending, and Python complains of the report instead of the error, which is what the caller wants."""
    try:
        return call(timeout_s)
    except SystemError as complaint:
        if isinstance(complaint.__cause__, KafkaException):
            raise complaint.__cause__ from None
        raise


_REASONS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "is too large ({size} bytes); see kafka.max.request.size and max.message.bytes",
    KafkaError.INVALID_MSG_SIZE: "is too large ({size} bytes); see max.message.bytes of the topic",
    KafkaError._UNKNOWN_PARTITION: "names a partition that the topic does not have",
    KafkaError._UNKNOWN_TOPIC: "names a topic that does not exist",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "names a topic or partition that does not exist",
    KafkaError.TOPIC_EXCEPTION: "names a topic whose name is not valid",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "names a topic that this user may not write to",
    KafkaError.INVALID_RECORD: "was refused by the broker; a compacted topic, for one, takes no records without a key",
    # A transactional producer that heard of it between two records; of an idempotent one that does not happen.
    KafkaError._FATAL: "was not taken: another attempt at this task has taken over",
    KafkaError._MSG_TIMED_OUT: "was not confirmed in time (kafka.delivery.timeout.ms): no broker, or too slow",
}


def _explain(error: KafkaError, topic: str | None, partition: int | None, size: int) -> str:
    where = f"topic {topic}" + (f", partition {partition}" if partition is not None and partition >= 0 else "")
    reason = _REASONS.get(error.code(), "could not be written").format(size=size)
    return f"a record for {where} {reason} ({error.name()}: {error.str()})"
