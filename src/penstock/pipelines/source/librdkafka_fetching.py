"""The fetcher for every security protocol: a task's range as Arrow rows, by librdkafka. Three times slower than the
direct one, because each record passes through a Python object.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import confluent_kafka
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException

from penstock.client.resource_cache import ResourceCache
from penstock.pipelines.source.cluster import explain_setting
from penstock.pipelines.source.columns import CREATE_TIME, HEADERS_TYPE, LOG_APPEND_TIME, build_rows
from penstock.pipelines.source.data_loss import explain_gone, explain_missing, report
from penstock.pipelines.source.direct_fetch import FetchError, bound_rows

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.pipelines.source.offset_ranges import OffsetRange
    from penstock.pipelines.source.read_options import FetchOptions

_MESSAGES_AT_ONCE = 10_000
_POLL_S = 0.5
_WATERMARK_TIMEOUT_S = 10.0
_OWN_SETTINGS = {
    "group.id": "penstock-spark",  # librdkafka wants one; nothing is ever committed under it
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
}
_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})

# A task reads with one consumer; the others wait for tasks with other settings.
_MOST_CONSUMERS = 4


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.consumers: ResourceCache[tuple[tuple[str, object], ...], Consumer] = ResourceCache(
            _MOST_CONSUMERS, Consumer.close
        )


_kept = _OfThread()


def _consumer_of(options: FetchOptions) -> Consumer:
    isolation = "read_committed" if options.is_read_committed else "read_uncommitted"
    settings = {"log_level": 0, "client.id": "penstock-spark", **options.settings, **_OWN_SETTINGS}
    settings |= {"isolation.level": isolation, "check.crcs": str(options.check_crcs).lower()}
    try:
        return _kept.consumers.get(tuple(sorted(settings.items())), lambda: Consumer(settings))
    except KafkaException as error:
        raise explain_setting(error) from error


class LibrdkafkaFetch:
    """One pass over one range; use `rows` once."""

    def __init__(self, part: OffsetRange, options: FetchOptions) -> None:
        self._part = part
        self._options = options
        self._consumer = _consumer_of(options)
        self._offset = part.start
        self._progress_at = time.monotonic()

    def rows(self) -> Iterator[pa.RecordBatch]:
        self._seek(self._offset)
        try:
            while self._offset < self._part.end:
                records = self._take(self._consumer.consume(_MESSAGES_AT_ONCE, _POLL_S))
                if records:
                    self._progress_at = time.monotonic()
                    yield from bound_rows(self._build(records))
                elif self._offset < self._part.end:
                    self._check_patience()
        finally:
            self._consumer.unassign()

    def _take(self, messages: list[Message]) -> list[Message]:
        """The records of the range, in order; `_offset` moves on, by what is no record as well."""
        records: list[Message] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._judge(error, message)
                continue
            offset = message.offset()
            assert offset is not None
            if offset < self._part.end:
                records.append(message)
            self._offset = max(self._offset, offset + 1)
        return records

    def _judge(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # The end may consist of transaction markers or compacted records, which are no messages.
            self._offset = max(self._offset, message.offset() or 0)
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._skip_lost()
        elif code in _UNKNOWN:
            report([explain_gone(self._part, self._offset)], self._options.fail_on_data_loss)
            self._offset = self._part.end
        elif not error.retriable() and code not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            raise FetchError(f"{self._part.partition} at offset {self._offset}: {error.str()}")

    def _skip_lost(self) -> None:
        partition = confluent_kafka.TopicPartition(*self._part.partition)
        first, last = self._consumer.get_watermark_offsets(partition, timeout=_WATERMARK_TIMEOUT_S)
        if not first <= self._offset <= last:  # otherwise the same error came a second time
            report([explain_missing(self._part, self._offset, first, last)], self._options.fail_on_data_loss)
            self._offset = min(first, self._part.end) if first > self._offset else self._part.end
        if self._offset < self._part.end:
            self._seek(self._offset)

    def _seek(self, offset: int) -> None:
        self._consumer.assign([confluent_kafka.TopicPartition(*self._part.partition, offset)])

    def _check_patience(self) -> None:
        waited_ms = int((time.monotonic() - self._progress_at) * 1000)
        if waited_ms >= self._options.poll_timeout_ms:
            raise FetchError(
                f"{self._part.partition}: no records from offset {self._offset} (up to {self._part.end - 1} are"
                " wanted) for"
                f" {waited_ms} ms, the limit is kafkaConsumer.pollTimeoutMs={self._options.poll_timeout_ms}"
            )

    def _build(self, records: list[Message]) -> pa.RecordBatch:
        stamps = [record.timestamp() for record in records]
        types = [
            LOG_APPEND_TIME if kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME else CREATE_TIME for kind, _ in stamps
        ]
        return build_rows(
            self._part.partition,
            pa.array([record.key() for record in records], pa.binary()),
            pa.array([record.value() for record in records], pa.binary()),
            np.array([record.offset() for record in records], np.int64),
            np.array([timestamp for _, timestamp in stamps], np.int64),
            np.array(types, np.int32),
            _build_headers(records) if self._wants_headers(records) else None,
        )

    def _wants_headers(self, records: list[Message]) -> bool:
        names = self._options.header_names
        return self._options.include_headers or (
            bool(names) and any(each["key"] in names for record in records for each in _list_headers(record))
        )


def _build_headers(records: list[Message]) -> pa.Array:
    """Null where a record has none."""
    return pa.array([_list_headers(record) or None for record in records], HEADERS_TYPE)


def _list_headers(record: Message) -> list[dict[str, object]]:
    headers: Any = record.headers() or ()  # annotated as several forms, of which a consumer returns only pairs
    return [{"key": key, "value": value} for key, value in headers]
