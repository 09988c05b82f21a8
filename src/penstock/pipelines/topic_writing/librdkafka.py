"""A producer of librdkafka that takes a whole batch of rows in one call, which that of confluent_kafka does not.

Errors are confluent_kafka's own, KafkaException and KafkaError. Reports of failure and log lines come while `poll`,
`flush` or a transactional request runs, on the thread that called it, never on a thread of librdkafka's.
"""

from __future__ import annotations

import ctypes
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from confluent_kafka import KafkaError, KafkaException

from penstock.pipelines.kafka.group_consumer import LIBRDKAFKA_LOG
from penstock.pipelines.topic_writing import librdkafka_c as c

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# From syslog's levels, 0 to 7.
_LOG_LEVELS = (logging.CRITICAL,) * 3 + (logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)

# Of librdkafka's texts; longer ones are cut by it.
_TEXT_SIZE = 512
_lib = c.library


@dataclass(frozen=True, slots=True)
class FailedRecord:
    error: KafkaError
    topic: str
    partition: int
    size: int


class RawProducer:
    """Set `delivery.report.only.error`, or `report` is called for every record. It must not hold the producer."""

    def __init__(self, settings: Mapping[str, str], report: Callable[[FailedRecord], None]) -> None:
        callbacks = (_delivery_callback(report), c.LogCallback(_write_log))
        handle = _open({**settings, "log.queue": "true"}, *callbacks)
        _lib.rd_kafka_set_log_queue(handle, None)
        self._open_handle = handle
        # The finalizer also keeps the callbacks, which must live until the handle is gone.
        self._end = weakref.finalize(self, _destroy, handle, os.getpid(), callbacks)
        self._requests: set[object] = set()

    @property
    def _handle(self) -> int:
        assert self._end.alive, "the producer is closed"
        return self._open_handle

    def close(self) -> None:
        """Drops the records in the queue."""
        self._end()

    def produce_batch(self, topic: str, partition: int, messages: NDArray[np.void]) -> NDArray[np.void]:
        """Returns the messages that librdkafka did not take, in order, each with its error. Once the queue is full, all
        later messages are among them.

        The call names the partition, not the message: with RD_KAFKA_MSG_F_PARTITION librdkafka 2.16 leaks a message
        whose partition does not exist, and counts it as queued for ever."""
        handle = _lib.rd_kafka_topic_new(self._handle, c.c_string(topic), None)
        if not handle:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"topic {topic[:100]} cannot be used"))
        try:
            count = len(messages)
            taken = _lib.rd_kafka_produce_batch(handle, partition, c.COPY, messages.ctypes.data, count)
        finally:
            _lib.rd_kafka_topic_destroy(handle)
        return messages[count:] if taken == count else messages[messages["error"] != 0]

    def produce_each(self, calls: Iterable[tuple[int, int]]) -> tuple[int, KafkaError | None]:
        """How many were taken, and why the next one was not. Each call is the address and the number of its ARGUMENTs.

        Cost: 5 us a row with two headers, most of it librdkafka's; confluent_kafka's produce() took 7."""
        produce, handle = _lib.rd_kafka_produceva, self._handle
        taken = 0
        for address, count in calls:
            error = produce(handle, address, count)
            if error:
                return taken, _take_error(error)
            taken += 1
        return taken, None

    def poll(self, timeout_s: float) -> None:
        _lib.rd_kafka_poll(self._handle, _milliseconds(timeout_s))
        self._raise_fatal()

    def flush(self, timeout_s: float) -> int:
        """How many records are still unconfirmed."""
        _lib.rd_kafka_flush(self._handle, _milliseconds(timeout_s))
        self._raise_fatal()
        return self.queued

    @property
    def queued(self) -> int:
        """Records, and what waits to be polled: reports of failure, log lines."""
        count: int = _lib.rd_kafka_outq_len(self._handle)
        return count

    def purge(self) -> None:
        """Drops what is queued and what is on its way. The records are reported as failed."""
        _lib.rd_kafka_purge(self._handle, c.PURGE_QUEUE | c.PURGE_IN_FLIGHT)

    def init_transactions(self, timeout_s: float) -> None:
        self._request(_lib.rd_kafka_init_transactions, _milliseconds(timeout_s))

    def begin_transaction(self) -> None:
        self._request(_lib.rd_kafka_begin_transaction)

    def send_offset_to_transaction(
        self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_s: float
    ) -> None:
        """Adds the offset to the transaction, as a group without members does.

        The metadata ends with a zero. Without one "cut=3" was read back as "cut=3V" by confluent_kafka's `committed`,
        with librdkafka 2.16: it reads up to a zero, and seems to be given a copy that has none (not looked up)."""
        text = metadata.encode() + b"\0" if metadata else b""
        kept = ctypes.create_string_buffer(text)
        offsets = _lib.rd_kafka_topic_partition_list_new(1)
        members = _lib.rd_kafka_consumer_group_metadata_new(group.encode())
        added = _lib.rd_kafka_topic_partition_list_add(offsets, topic.encode(), partition).contents
        added.offset = offset
        added.metadata, added.metadata_size = ctypes.addressof(kept), len(text)
        try:
            self._request(_lib.rd_kafka_send_offsets_to_transaction, offsets, members, _milliseconds(timeout_s))
        finally:
            added.metadata, added.metadata_size = None, 0  # ours, so not the list's to free
            _lib.rd_kafka_topic_partition_list_destroy(offsets)
            _lib.rd_kafka_consumer_group_metadata_destroy(members)

    def commit_transaction(self, timeout_s: float) -> None:
        self._request(_lib.rd_kafka_commit_transaction, _milliseconds(timeout_s))

    def abort_transaction(self, timeout_s: float) -> None:
        self._request(_lib.rd_kafka_abort_transaction, _milliseconds(timeout_s))

    def _request(self, function: Callable[..., int | None], *arguments: object) -> None:
        """The call may never return (see `bounded_call`); then the process must end without waiting for the call."""
        request = object()
        self._requests.add(request)
        self._end.atexit = False
        error = function(self._handle, *arguments)
        self._requests.discard(request)
        self._end.atexit = not self._requests
        if error:
            raise KafkaException(_take_error(error))

    def _raise_fatal(self) -> None:
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        code = _lib.rd_kafka_fatal_error(self._handle, text, _TEXT_SIZE)
        if code:
            raise KafkaException(KafkaError(code, _text(text.value), fatal=True))


def _open(settings: Mapping[str, str], on_delivery: object, on_log: object) -> int:
    text = ctypes.create_string_buffer(_TEXT_SIZE)
    conf = _lib.rd_kafka_conf_new()
    for name, value in settings.items():
        if _lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, _TEXT_SIZE) != c.CONF_OK:
            _refuse(conf, f"setting {name}: {_text(text.value)}")
    _lib.rd_kafka_conf_set_dr_msg_cb(conf, on_delivery)
    _lib.rd_kafka_conf_set_log_cb(conf, on_log)
    handle: int | None = _lib.rd_kafka_new(c.PRODUCER, conf, text, _TEXT_SIZE)
    if handle is None:
        _refuse(conf, f"Failed to create producer: {_text(text.value)}")
    return handle


def _refuse(conf: int, reason: str) -> NoReturn:
    _lib.rd_kafka_conf_destroy(conf)
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))


def _destroy(handle: int, process: int, callbacks: tuple[object, ...]) -> None:
    """A forked process has the handle but not its threads, for whose end it would wait in vain."""
    if os.getpid() != process:
        return
    _lib.rd_kafka_purge(handle, c.PURGE_QUEUE | c.PURGE_IN_FLIGHT | c.PURGE_NON_BLOCKING)
    _lib.rd_kafka_destroy(handle)


def _delivery_callback(report: Callable[[FailedRecord], None]) -> object:
    def take(producer: int, message: Any, opaque: int | None) -> None:
        record = message.contents
        if record.error:
            # Without "produce" in its name the function takes the record's value, which has no end, for the text.
            text = _text(_lib.rd_kafka_message_produce_errstr(message))
            error = KafkaError(record.error, text) if text else KafkaError(record.error)
            topic = _text(_lib.rd_kafka_topic_name(record.topic))
            report(FailedRecord(error, topic, record.partition, record.value_size))

    return c.DeliveryCallback(take)


def _write_log(producer: int, level: int, facility: bytes, line: bytes) -> None:
    name = _text(_lib.rd_kafka_name(producer))
    LIBRDKAFKA_LOG.log(_LOG_LEVELS[min(level, 7)], "%s [%s] %s", _text(facility), name, _text(line))


def _take_error(error: int) -> KafkaError:
    """The error of an rd_kafka_error_t, which is freed."""
    try:
        return KafkaError(
            _lib.rd_kafka_error_code(error),
            _text(_lib.rd_kafka_error_string(error)),
            fatal=bool(_lib.rd_kafka_error_is_fatal(error)),
            retriable=bool(_lib.rd_kafka_error_is_retriable(error)),
            txn_requires_abort=bool(_lib.rd_kafka_error_txn_requires_abort(error)),
        )
    finally:
        _lib.rd_kafka_error_destroy(error)


def _text(given: bytes | None) -> str:
    return (given or b"").decode(errors="replace")


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
