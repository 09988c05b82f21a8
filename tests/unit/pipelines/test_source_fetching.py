"""The direct fetcher against a broker made of plain objects: retries, losses, markers, gaps."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.addresses import parse_servers
from penstock.client.batches.fetched_batches import AbortedTransactions, find_batches, open_sections
from penstock.core.types import TopicPartition
from penstock.pipelines.source.data_loss import DataLossError
from penstock.pipelines.source.direct_fetch import DirectFetch, FetchError, FetchVerdict, choose_fetch_bytes, judge
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.read_options import FetchOptions
from penstock.protocol import batch as batches
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.records import CONTROL_ABORT, CONTROL_COMMIT, EndMarker, Record, build_batch, build_end_marker

PARTITION = TopicPartition("t", 0)


def make_batch(offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    records = [Record(None, value, (), 5) for value in values]
    is_transactional = producer_id >= 0
    return build_batch(
        records, base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=is_transactional
    )


def make_marker(offset: int, kind: int, producer_id: int) -> bytes:
    return build_end_marker(
        EndMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=5, base_offset=offset
    )


class FakeBroker:
    """Answers in order what it was given: bytes, an error code, or an exception. Plays connection and cluster alike."""

    def __init__(self, *answers: bytes | ErrorCode | OSError, bounds: tuple[int, int] = (0, 0)) -> None:
        self._answers = iter(answers)
        self.bounds = bounds
        self.asked: list[int] = []
        self.dropped = 0
        self.forgotten = 0
        self.aborted: list[AbortedTransaction] = []

    def leader(self, partition: TopicPartition) -> FakeBroker:
        return self

    def find_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return self.bounds

    def forget_leader(self, partition: TopicPartition) -> None:
        self.forgotten += 1

    def drop(self, connection: object) -> None:
        self.dropped += 1

    def send(self, request: Any) -> int:
        self.asked.append(request.topics[0].partitions[0].fetch_offset)
        return len(self.asked)

    def receive(self, request_id: int, response: type[FetchResponse], *, timeout_s: float) -> FetchResponse:
        answer = next(self._answers, b"")
        if isinstance(answer, OSError):
            raise answer
        data = PartitionData(high_watermark=99, aborted_transactions=self.aborted)
        if isinstance(answer, ErrorCode):
            data.error_code = answer
        else:
            data.records = memoryview(answer)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def fetch(broker: FakeBroker, start: int, end: int, **options: Any) -> list[bytes]:
    clock = Clock()
    part = OffsetRange(PARTITION, start, end)
    brokers: Any = broker
    fetching = DirectFetch(part, FetchOptions({}, **options), brokers, clock=lambda: clock.now, sleep=clock.sleep)
    return [value for rows in fetching.rows() for value in rows.column("value").to_pylist()]


def test_only_the_range_is_returned_when_batches_reach_beyond_it() -> None:
    broker = FakeBroker(make_batch(0, b"a", b"b", b"c"), make_batch(3, b"d", b"e"))
    assert fetch(broker, 1, 4) == [b"b", b"c", b"d"]
    assert broker.asked == [1, 3]
    assert broker.dropped == 0


def test_nothing_is_asked_when_the_range_is_empty() -> None:
    broker = FakeBroker()
    assert fetch(broker, 5, 5) == []
    assert broker.asked == []


def test_task_ends_when_its_end_lies_in_a_gap() -> None:
    assert fetch(FakeBroker(make_batch(0, b"a"), make_batch(50, b"z")), 0, 20) == [b"a"]
    marker = make_marker(1, CONTROL_COMMIT, 7)
    assert fetch(FakeBroker(make_batch(0, b"a", producer_id=7) + marker), 0, 2) == [b"a"]


def test_reading_goes_on_when_leaders_and_connections_change() -> None:
    broker = FakeBroker(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ConnectionError("lost"),
        b"",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        make_batch(0, b"a"),
    )
    assert fetch(broker, 0, 1) == [b"a"]
    assert broker.forgotten == 3
    assert broker.dropped == 1


def test_error_names_offsets_and_limit_when_records_do_not_come() -> None:
    with pytest.raises(FetchError, match=r"t-0: no records from offset 3 \(up to 8 are wanted\).*pollTimeoutMs=2000"):
        fetch(FakeBroker(), 3, 9, poll_timeout_ms=2000)


def test_error_is_immediate_when_retrying_is_useless() -> None:
    with pytest.raises(FetchError, match="t-0 at offset 0"):
        fetch(FakeBroker(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0, 1)


def test_loss_is_told_when_the_offset_is_out_of_range() -> None:
    refused = ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(DataLossError, match="offsets 0 to 4 are no longer there"):
        fetch(FakeBroker(refused, bounds=(5, 9)), 0, 6)
    assert fetch(FakeBroker(refused, make_batch(5, b"f"), bounds=(5, 9)), 0, 6, fail_on_data_loss=False) == [b"f"]
    with pytest.raises(DataLossError, match="ends at offset 2, before offset 4"):
        fetch(FakeBroker(refused, bounds=(0, 2)), 4, 6)
    assert fetch(FakeBroker(refused, bounds=(0, 2)), 4, 6, fail_on_data_loss=False) == []
    # The log has it after all: a stale answer.
    assert fetch(FakeBroker(refused, make_batch(4, b"e"), bounds=(0, 9)), 4, 5) == [b"e"]


def test_topic_counts_as_gone_when_it_stays_unknown() -> None:
    unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 20
    with pytest.raises(DataLossError, match="topic t partition 0 is gone"):
        fetch(FakeBroker(*unknown), 0, 1)
    assert fetch(FakeBroker(*unknown), 0, 1, fail_on_data_loss=False) == []


def test_topic_is_not_gone_when_it_is_unknown_for_a_moment_after_a_long_absence() -> None:
    """The absence once counted towards the five seconds, and the first such answer meant data loss."""
    away = [ConnectionRefusedError()] * 20
    broker = FakeBroker(*away, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, make_batch(0, b"a"))
    assert fetch(broker, 0, 1) == [b"a"]


def test_aborted_records_are_hidden_when_reading_committed() -> None:
    log = [
        make_batch(0, b"kept", producer_id=1),
        make_batch(1, b"gone", producer_id=2),
        make_marker(2, CONTROL_ABORT, 2),
        make_batch(3, b"later", producer_id=2),
        make_marker(4, CONTROL_COMMIT, 2),
        make_marker(5, CONTROL_COMMIT, 1),
    ]
    broker = FakeBroker(b"".join(log))
    broker.aborted = [AbortedTransaction(producer_id=2, first_offset=1)]
    assert fetch(broker, 0, 6, is_read_committed=True) == [b"kept", b"later"]
    assert fetch(FakeBroker(b"".join(log)), 0, 6) == [b"kept", b"gone", b"later"]


def test_connection_is_dropped_when_a_reader_stops_early() -> None:
    broker = FakeBroker(make_batch(0, b"a"), make_batch(1, b"b"))
    brokers: Any = broker
    rows: Iterator[object] = DirectFetch(OffsetRange(PARTITION, 0, 9), FetchOptions({}), brokers).rows()
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert broker.dropped == 1


def test_damage_is_an_error_when_the_crc_is_wrong() -> None:
    damaged = bytearray(make_batch(7, b"value"))
    damaged[-2] ^= 1
    with pytest.raises(FetchError, match="the batch at offset 7 is damaged"):
        fetch(FakeBroker(bytes(damaged)), 7, 8)


def test_old_message_format_is_refused_when_a_broker_sends_it() -> None:
    old = bytearray(make_batch(0, b"value"))
    old[batches.MAGIC_POSITION] = 1
    with pytest.raises(ApiError, match="message format 1"):
        find_batches(bytes(old))


def test_transactions_are_told_apart_when_one_producer_aborts_twice() -> None:
    aborted = AbortedTransactions([(10, 1), (0, 1)])
    headers = {offset: batches.read_header(make_batch(offset, b"x", producer_id=1)) for offset in (0, 5, 10)}
    assert aborted.hides(headers[0])
    aborted.see_marker(headers[0], CONTROL_ABORT)
    assert not aborted.hides(headers[5])
    assert aborted.hides(headers[10])


def test_empty_batches_are_passed_over_when_compaction_left_them() -> None:
    empty = build_batch([], base_offset=3)
    assert list(open_sections(empty, find_batches(empty), None, 0, 9)) == []


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, FetchVerdict.TAKE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FetchVerdict.RETRY),
        (ErrorCode.KAFKA_STORAGE_ERROR, FetchVerdict.RETRY),
        (ErrorCode.OFFSET_OUT_OF_RANGE, FetchVerdict.OUT_OF_RANGE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, FetchVerdict.UNKNOWN),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, FetchVerdict.FAIL),
        (ErrorCode.CORRUPT_MESSAGE, FetchVerdict.FAIL),
    ],
)
def test_errors_are_judged_when_a_fetch_fails(code: ErrorCode, verdict: FetchVerdict) -> None:
    assert judge(code) is verdict


def test_fetch_size_follows_the_range_when_it_is_small() -> None:
    assert choose_fetch_bytes(10, None, 8 << 20) == 64 * 1024
    assert choose_fetch_bytes(10**6, 100.0, 8 << 20) == 8 << 20
    assert choose_fetch_bytes(10_000, 100.0, 8 << 20) == 1_000_000
    assert choose_fetch_bytes(10_000, None, 8 << 20) == 320_000
    assert choose_fetch_bytes(10**6, None, 8 << 20) == 8 << 20
    assert choose_fetch_bytes(1, 100.0, 8 << 20) == 4 * 1024


def test_servers_are_understood_when_written_in_any_way() -> None:
    assert parse_servers("a, b:1 ,PLAINTEXT://c:2,[::1]:3") == [("a", 9092), ("b", 1), ("c", 2), ("::1", 3)]


def test_records_are_counted_when_nothing_of_them_is_wanted() -> None:
    """Batches that reach beyond the range are opened, and a transaction that was aborted does not count."""
    marker = make_marker(8, CONTROL_ABORT, 7)
    data = (
        make_batch(0, b"a", b"b", b"c") + make_batch(3, b"d", b"e") + make_batch(6, b"x", b"y", producer_id=7) + marker
    )
    rows = [make_batch(9, b"f"), make_batch(10, b"g", b"h")]
    broker = FakeBroker(data + b"".join(rows))
    broker.aborted = [AbortedTransaction(producer_id=7, first_offset=6)]
    found = fetch(broker, 1, 11, is_counted=True, is_read_committed=True)
    assert len(found) == 2 + 2 + 1 + 1


def lying_batch(count: int, codec: Codec = Codec.NONE) -> bytes:
    """A header that says it holds so many records, and one record."""
    honest = build_batch([Record(None, b"v", (), 5)], base_offset=0, codec=codec)
    header = batches.read_header(honest)
    claimed = header._replace(record_count=count, last_offset_delta=count - 1)
    return batches.build(claimed, honest[batches.HEADER_SIZE :])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("is_counted", [True, False])
def test_damage_is_an_error_when_a_small_batch_says_that_it_holds_billions(codec: Codec, is_counted: bool) -> None:
    with pytest.raises(FetchError, match="cannot hold the 2147483647 records"):
        fetch(FakeBroker(lying_batch(2**31 - 1, codec)), 0, 2**31, is_counted=is_counted)


def test_counted_rows_come_in_pieces_when_there_are_many() -> None:
    broker: Any = FakeBroker(build_batch([Record(None, None, (), 5)] * 70_000, base_offset=0))
    rows = DirectFetch(OffsetRange(PARTITION, 0, 70_000), FetchOptions({}, is_counted=True), broker).rows()
    assert [each.num_rows for each in rows] == [65_536, 4_464]


def test_keys_and_values_are_null_when_they_are_not_included() -> None:
    assert fetch(FakeBroker(make_batch(0, b"a", b"b")), 0, 2, include_values=False) == [None, None]


def test_headers_come_along_only_when_a_record_has_one_of_the_names() -> None:
    def columns(name: str) -> list[str]:
        records = [Record(None, b"v", (("trace", b"1"),), 5), Record(None, b"w", ((name, b"2"),), 5)]
        options = FetchOptions({}, header_names=frozenset({"wanted"}))
        brokers: Any = FakeBroker(build_batch(records, base_offset=0))
        (rows,) = DirectFetch(OffsetRange(PARTITION, 0, 2), options, brokers).rows()
        return list(rows.schema.names)

    assert "headers" in columns("wanted")
    assert "headers" not in columns("other")


def test_the_error_has_the_broker_s_code_when_it_refuses_records() -> None:
    with pytest.raises(FetchError) as refused:
        fetch(FakeBroker(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0, 1)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert pickle.loads(pickle.dumps(refused.value)).code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
