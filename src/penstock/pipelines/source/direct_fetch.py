"""The direct fetcher: a task's range of offsets as Arrow rows, by Fetch requests over our own connection.

While the records of one answer are decoded, the next request is on its way. Answers that make no progress (a leader
that moved, a broker that restarts) are retried with growing pauses, for kafkaConsumer.pollTimeoutMs at most.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.client.batches.fetched_batches import AbortedTransactions, Section, SeenBatch, find_batches, see_batches
from penstock.client.connection.core import REQUEST_TIMEOUT_S
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.client.versioned_client import VersionedClient
from penstock.pipelines.source.brokers import Brokers
from penstock.pipelines.source.columns import bare_rows
from penstock.pipelines.source.data_loss import explain_gone, explain_missing, report
from penstock.pipelines.source.decoding import Parts, decode_sections
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.read_options import FetchOptions
from penstock.protocol.batch import HEADER_SIZE, can_hold
from penstock.protocol.errors import ApiError, ErrorCode, is_retriable
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

# What is decoded at once: large enough to share numpy's cost per call, small enough to stay in the processor's cache.
DECODED_BYTES = 1024 * 1024
# What Spark is given at once, should a single batch hold more.
ROWS_BYTES = 8 * 1024 * 1024
ROWS_COUNT = 65_536

# Before the first answer shows the size of records, the reader takes them for small: too small a request costs a round
# trip, and too large a one may be all of a topic for an hour of it.
_FIRST_FETCH_BYTES = 64 * 1024
_SMALL_RECORD_BYTES = 32
# Then just as much as the rest should have; where that was too little, there is another round trip for the last batch.
_LEAST_FETCH_BYTES = 4 * 1024
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
# A new or moving partition is unknown to some broker for a moment; after that it is gone.
_GONE_AFTER_S = 5.0


class FetchError(RuntimeError):
    """Records that must be there could not be had. `code` is the broker's, where it has refused them."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[FetchError], tuple[str, ErrorCode | None]]:
        return type(self), (str(self), self.code)


class FetchVerdict(enum.Enum):
    TAKE = enum.auto()
    RETRY = enum.auto()
    OUT_OF_RANGE = enum.auto()
    UNKNOWN = enum.auto()
    FAIL = enum.auto()


_VERDICTS = {
    ErrorCode.NONE: FetchVerdict.TAKE,
    ErrorCode.OFFSET_OUT_OF_RANGE: FetchVerdict.OUT_OF_RANGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: FetchVerdict.UNKNOWN,
    ErrorCode.UNKNOWN_TOPIC_ID: FetchVerdict.UNKNOWN,
    ErrorCode.CORRUPT_MESSAGE: FetchVerdict.FAIL,  # retriable by the table, but a second try reads the same bytes
}


def judge(code: ErrorCode) -> FetchVerdict:
    return _VERDICTS.get(code) or (FetchVerdict.RETRY if is_retriable(code) else FetchVerdict.FAIL)


def choose_fetch_bytes(remaining: int, record_bytes: float | None, most: int) -> int:
    """About as much as the rest of the range, so that a small range does not carry the topic's tail along."""
    if record_bytes is None:
        return min(most, max(_FIRST_FETCH_BYTES, remaining * _SMALL_RECORD_BYTES))
    return min(most, max(_LEAST_FETCH_BYTES, int(remaining * record_bytes)))


def bound_rows(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    pieces = max(-(-rows.nbytes // ROWS_BYTES), -(-rows.num_rows // ROWS_COUNT), 1)
    step = max(1, -(-rows.num_rows // pieces))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


@dataclass(slots=True)
class _Request:
    connection: VersionedClient
    id: int
    offset: int


class DirectFetch:
    """One pass over one range; use `rows` once."""

    def __init__(
        self,
        part: OffsetRange,
        options: FetchOptions,
        brokers: Brokers,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._part = part
        self._options = options
        self._brokers = brokers
        self._clock = clock
        policy = RetryPolicy(options.poll_timeout_ms / 1000, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._retrying = Retrying(policy, clock, sleep)  # since the last records
        self._offset = part.start
        self._record_bytes: float | None = None
        self._outstanding: _Request | None = None
        self._unknown_since = math.inf
        self._most_bytes = options.max_bytes
        self._parts = Parts(options.include_keys, options.include_values, options.include_headers, options.header_names)

    def rows(self) -> Iterator[pa.RecordBatch]:
        try:
            while self._offset < self._part.end:
                answer = self._ask()
                if answer is not None:
                    yield from self._take(answer)
        except ApiError as error:
            raise FetchError(
                f"{self._part.partition} before offset {self._offset}: {error.message}", error.code
            ) from error
        finally:
            if self._outstanding is not None:
                self._brokers.drop(self._outstanding.connection)

    def _ask(self) -> PartitionData | None:
        """The broker's answer for `_offset`, or None when it was of no use and the next try may be better."""
        answer: PartitionData | None
        refused: ErrorCode | None = None
        try:
            answer = self._receive()
            verdict, why = judge(ErrorCode(answer.error_code)), ApiError(ErrorCode(answer.error_code)).message
        except OSError as error:
            answer, verdict, why = None, FetchVerdict.RETRY, str(error)
        except ApiError as error:
            answer, refused, verdict, why = None, error.code, judge(error.code), error.message
        if verdict is not FetchVerdict.UNKNOWN:
            self._unknown_since = math.inf
        match verdict:
            case FetchVerdict.TAKE:
                return answer
            case FetchVerdict.OUT_OF_RANGE:
                self._skip_lost()
            case FetchVerdict.UNKNOWN if self._is_gone():
                report([explain_gone(self._part, self._offset)], self._options.fail_on_data_loss)
                self._offset = self._part.end
            case FetchVerdict.FAIL:
                code = ErrorCode(answer.error_code) if answer is not None else refused
                raise FetchError(f"{self._part.partition} at offset {self._offset}: {why}", code)
            case _:
                self._brokers.forget_leader(self._part.partition)
                self._wait(why)
        return None

    def _is_gone(self) -> bool:
        """From the first such answer on, not from the last records: a broker may have been away in between."""
        now = self._clock()
        self._unknown_since = min(self._unknown_since, now)
        return now - self._unknown_since >= _GONE_AFTER_S

    def _receive(self) -> PartitionData:
        request = self._outstanding
        if request is None or request.offset != self._offset:
            self._drop_outstanding()
            request = self._send(self._offset)
        self._outstanding = request
        timeout_s = min(REQUEST_TIMEOUT_S, self._options.poll_timeout_ms / 1000) + self._options.max_wait_ms / 1000
        try:
            answer = request.connection.receive(request.id, FetchResponse, timeout_s=timeout_s)
        except OSError:
            self._drop_outstanding()
            raise
        self._outstanding = None
        if answer.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(answer.error_code))
        return answer.responses[0].partitions[0]

    def _send(self, offset: int) -> _Request:
        part, options = self._part, self._options
        size = choose_fetch_bytes(part.end - offset, self._record_bytes, self._most_bytes)
        wanted = FetchPartition(partition=part.partition.partition, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=options.max_wait_ms,
            min_bytes=1,
            max_bytes=size,
            isolation_level=int(options.is_read_committed),
            topics=[FetchTopic(topic=part.partition.topic, partitions=[wanted])],
        )
        connection = self._brokers.leader(part.partition)
        try:
            return _Request(connection, connection.send(request), offset)
        except OSError:
            self._brokers.drop(connection)
            raise

    def _drop_outstanding(self) -> None:
        if self._outstanding is not None:
            self._brokers.drop(self._outstanding.connection)
            self._outstanding = None

    def _take(self, answer: PartitionData) -> Iterator[pa.RecordBatch]:
        data = answer.records
        assert data is None or isinstance(data, memoryview)
        batches = [] if data is None else find_batches(data)
        if data is None or not batches:
            if data:  # the first batch alone is larger than the request allowed
                self._most_bytes = self._record_bytes_beyond(len(data))
            else:
                self._wait(f"the broker has nothing there; its high watermark is {answer.high_watermark}")
            return
        last = batches[-1]
        start, self._offset = self._offset, max(self._offset, last.header.next_offset)
        self._record_bytes = (last.position + last.header.size) / max(1, self._offset - batches[0].header.base_offset)
        self._retrying.restart()
        self._send_ahead()
        aborted = None
        if self._options.is_read_committed:
            listed = answer.aborted_transactions or []
            aborted = AbortedTransactions((transaction.first_offset, transaction.producer_id) for transaction in listed)
        seen = see_batches(data, batches, aborted, start, self._part.end, check_crcs=self._options.check_crcs)
        if self._options.is_counted:
            whole, parted = split_counted(seen, start, self._part.end)
            for count in count_pieces(whole):
                yield bare_rows(self._part.partition, count)
            seen = iter(parted)
        for sections in group_sections(batch.open() for batch in seen):
            rows = decode_sections(*self._part.partition, sections, start, self._part.end, self._parts)
            yield from bound_rows(rows)

    def _record_bytes_beyond(self, size: int) -> int:
        self._record_bytes = None
        return min(2**31 - 1, max(self._most_bytes, size) * 2)

    def _send_ahead(self) -> None:
        if self._offset < self._part.end:
            try:
                self._outstanding = self._send(self._offset)
            except (OSError, ApiError):
                self._outstanding = None  # `_ask` tries again, and knows what to do about failures

    def _skip_lost(self) -> None:
        """A broker that refuses an offset does not name the log's beginning, so the reader requests the bounds."""
        part = self._part
        try:
            first, last = self._brokers.find_bounds(part.partition)
        except (OSError, ApiError) as error:
            self._brokers.forget_leader(part.partition)
            self._wait(str(error))
            return
        if first <= self._offset <= last:
            self._wait("the broker refused an offset that it has; a leader may just have changed")
            return
        report([explain_missing(part, self._offset, first, last)], self._options.fail_on_data_loss)
        self._offset = min(first, part.end) if first > self._offset else part.end

    def _wait(self, why: str) -> None:
        if not self._retrying.may_go_on(Outlook.PASSING):
            raise FetchError(
                f"{self._part.partition}: no records from offset {self._offset} (up to {self._part.end - 1} are"
                f" wanted) for {int(self._retrying.elapsed_s * 1000)} ms, the limit is"
                f" kafkaConsumer.pollTimeoutMs={self._options.poll_timeout_ms}; the last reason: {why}"
            )
        self._retrying.pause()


def split_counted(seen: Iterable[SeenBatch], start: int, end: int) -> tuple[int, list[SeenBatch]]:
    """The number of records in batches that lie within the range, and the batches that must be opened: those that do
    not, and those whose header claims more records than their bytes can hold."""
    count, parted = 0, []
    for batch in seen:
        header = batch.header
        if header.base_offset >= start and header.last_offset < end and is_count_plausible(batch):
            count += header.record_count
        else:
            parted.append(batch)
    return count, parted


def is_count_plausible(batch: SeenBatch) -> bool:
    """A producer writes the count, and a broker need not have looked at the records."""
    header = batch.header
    is_possible = can_hold(len(batch.whole) - HEADER_SIZE, header.record_count, header.compression)
    return is_possible and header.record_count <= header.last_offset - header.base_offset + 1


def count_pieces(count: int) -> Iterator[int]:
    """The rows that Spark is given at once."""
    for start in range(0, count, ROWS_COUNT):
        yield min(ROWS_COUNT, count - start)


def group_sections(sections: Iterable[Section]) -> Iterator[list[Section]]:
    """Enough of them to be worth decoding together."""
    group: list[Section] = []
    size = 0
    for section in sections:
        group.append(section)
        size += len(section.records)
        if size >= DECODED_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
