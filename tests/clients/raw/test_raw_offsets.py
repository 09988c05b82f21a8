"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.clients.raw.wire import (
    Record,
    Topic,
    Wire,
    build_batch,
    create_topic,
    error_of,
    new_name,
    now_ms,
    produce_ok,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


def list_offset(wire: Wire, topic: str, timestamp: int, version: int | None = None, **bent: Any) -> Any:
    partition = ListOffsetsPartition(
        partition_index=bent.pop("partition", 0),
        current_leader_epoch=bent.pop("current_leader_epoch", -1),
        timestamp=timestamp,
    )
    wanted = ListOffsetsTopic(name=topic, partitions=[partition])
    return wire(ListOffsetsRequest(replica_id=-1, topics=[wanted], **bent), version).topics[0].partitions[0]


def found(answer: Any) -> tuple[int, int, int]:
    assert error_of(answer) == ErrorCode.NONE
    return answer.offset, answer.timestamp, answer.leader_epoch


@pytest.fixture
def base() -> int:
    return now_ms() - 100_000


@pytest.fixture
def filled(wire: Wire, topic: Topic, base: int) -> Topic:
    """Offsets 0 to 5 in three batches; the largest timestamp is at offset 3, inside the second batch."""
    for offsets in ((0, 10), (20, 90), (40, 50)):
        rows = [Record(b"v", timestamp=base + one) for one in offsets]
        produce_ok(wire, topic, build_batch(rows, timestamp=base + offsets[0]))
    return topic


class TestListOffsets:
    @pytest.mark.parametrize("version", range(1, 12))
    def test_ends_are_answered_when_asked_in_any_version(self, wire: Wire, filled: Topic, version: int) -> None:
        epoch = 0 if version >= 4 else -1
        assert found(list_offset(wire, filled.name, LATEST, version)) == (6, -1, epoch)
        assert found(list_offset(wire, filled.name, EARLIEST, version)) == (0, -1, epoch)

    @pytest.mark.parametrize("isolation_level", [0, 1])
    def test_latest_is_the_stable_end_when_there_are_no_transactions(
        self, wire: Wire, filled: Topic, isolation_level: int
    ) -> None:
        assert found(list_offset(wire, filled.name, LATEST, isolation_level=isolation_level))[0] == 6

    def test_ends_are_0_when_the_partition_is_empty(self, wire: Wire, topic: Topic) -> None:
        assert found(list_offset(wire, topic.name, LATEST)) == (0, -1, 0)
        assert found(list_offset(wire, topic.name, EARLIEST))[:2] == (0, -1)

    @pytest.mark.parametrize(
        ("after_base", "offset", "timestamp"),
        [(-500, 0, 0), (0, 0, 0), (5, 1, 10), (15, 2, 20), (21, 3, 90), (90, 3, 90)],
    )
    def test_first_record_at_or_after_is_answered_when_asked_by_timestamp(
        self, wire: Wire, filled: Topic, base: int, after_base: int, offset: int, timestamp: int
    ) -> None:
        assert found(list_offset(wire, filled.name, base + after_base)) == (offset, base + timestamp, 0)

    def test_nothing_is_answered_when_every_record_is_older(self, wire: Wire, filled: Topic, base: int) -> None:
        assert found(list_offset(wire, filled.name, base + 91)) == (-1, -1, -1)

    def test_nothing_is_answered_by_timestamp_when_the_partition_is_empty(self, wire: Wire, topic: Topic) -> None:
        assert found(list_offset(wire, topic.name, 0)) == (-1, -1, -1)

    @pytest.mark.parametrize("version", [7, 11])
    def test_record_of_the_largest_timestamp_is_answered_when_asked(
        self, wire: Wire, filled: Topic, base: int, version: int
    ) -> None:
        assert found(list_offset(wire, filled.name, MAX_TIMESTAMP, version)) == (3, base + 90, 0)

    def test_first_of_equal_timestamps_is_answered_when_asked_for_the_largest(
        self, wire: Wire, topic: Topic, base: int
    ) -> None:
        for _ in range(2):
            produce_ok(wire, topic, build_batch([b"a", b"b"], timestamp=base))
        assert found(list_offset(wire, topic.name, MAX_TIMESTAMP)) == (0, base, 0)

    def test_nothing_is_answered_as_largest_timestamp_when_the_partition_is_empty(
        self, wire: Wire, topic: Topic
    ) -> None:
        assert found(list_offset(wire, topic.name, MAX_TIMESTAMP)) == (-1, -1, -1)

    @pytest.mark.parametrize(
        ("special", "lowest_version"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)]
    )
    def test_special_timestamp_is_unsupported_when_the_version_does_not_know_it(
        self, wire: Wire, filled: Topic, special: int, lowest_version: int
    ) -> None:
        answer = list_offset(wire, filled.name, special, lowest_version - 1)
        assert error_of(answer) == ErrorCode.UNSUPPORTED_VERSION

    def test_local_start_is_the_start_when_nothing_is_tiered(self, wire: Wire, filled: Topic) -> None:
        assert found(list_offset(wire, filled.name, EARLIEST_LOCAL)) == (0, -1, 0)

    def test_nothing_is_answered_as_tiered_when_nothing_is_tiered(self, wire: Wire, filled: Topic) -> None:
        assert found(list_offset(wire, filled.name, LATEST_TIERED)) == (-1, -1, -1)
        assert found(list_offset(wire, filled.name, EARLIEST_PENDING_UPLOAD)) == (-1, -1, -1)

    @pytest.mark.parametrize("unknown", [-7, -100])
    def test_special_timestamp_is_unsupported_when_nobody_knows_it(
        self, wire: Wire, filled: Topic, unknown: int
    ) -> None:
        assert error_of(list_offset(wire, filled.name, unknown)) == ErrorCode.UNSUPPORTED_VERSION

    def test_partition_is_unknown_when_it_does_not_exist(self, wire: Wire, topic: Topic) -> None:
        for answer in (list_offset(wire, new_name(), LATEST), list_offset(wire, topic.name, LATEST, partition=3)):
            assert error_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (answer.offset, answer.timestamp, answer.leader_epoch) == (-1, -1, -1)

    def test_request_is_invalid_when_a_partition_is_named_twice(self, wire: Wire, topic: Topic) -> None:
        twice = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)] * 2
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=twice)])
        answers = wire(request).topics[0].partitions
        assert {error_of(answer) for answer in answers} == {ErrorCode.INVALID_REQUEST}

    def test_leader_epoch_is_unknown_when_newer_than_the_brokers(self, wire: Wire, topic: Topic) -> None:
        answer = list_offset(wire, topic.name, LATEST, current_leader_epoch=4)
        assert error_of(answer) == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_start_moves_when_records_are_deleted(self, wire: Wire, filled: Topic, base: int) -> None:
        delete_records(wire, filled.name, 3)
        assert found(list_offset(wire, filled.name, EARLIEST))[0] == 3
        assert found(list_offset(wire, filled.name, base))[0] == 3


def delete_records(wire: Wire, topic: str, offset: int, partition: int = 0, version: int | None = None) -> Any:
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    return wire(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), version).topics[0].partitions[0]


class TestDeleteRecords:
    @pytest.mark.parametrize("version", range(3))
    def test_low_watermark_moves_when_records_are_deleted(self, wire: Wire, filled: Topic, version: int) -> None:
        answer = delete_records(wire, filled.name, 4, version=version)
        assert (answer.error_code, answer.low_watermark) == (0, 4)

    def test_everything_goes_when_the_offset_is_minus_one(self, wire: Wire, filled: Topic) -> None:
        assert delete_records(wire, filled.name, -1).low_watermark == 6

    def test_low_watermark_stays_when_the_offset_is_already_gone(self, wire: Wire, filled: Topic) -> None:
        delete_records(wire, filled.name, 4)
        answer = delete_records(wire, filled.name, 2)
        assert (answer.error_code, answer.low_watermark) == (0, 4)

    @pytest.mark.parametrize("offset", [7, -2])
    def test_offset_is_out_of_range_when_past_the_end_or_negative(self, wire: Wire, filled: Topic, offset: int) -> None:
        answer = delete_records(wire, filled.name, offset)
        assert (error_of(answer), answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_partition_is_unknown_when_it_does_not_exist(self, wire: Wire, topic: Topic) -> None:
        for answer in (delete_records(wire, new_name(), 0), delete_records(wire, topic.name, 0, partition=1)):
            assert (error_of(answer), answer.low_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    def test_topic_is_protected_when_it_is_only_compacted(self, wire: Wire) -> None:
        compacted = create_topic(wire, configs={"cleanup.policy": "compact"})
        produce_ok(wire, compacted, build_batch([Record(key=b"k")]))
        assert error_of(delete_records(wire, compacted.name, 1)) == ErrorCode.POLICY_VIOLATION


def epoch_end(wire: Wire, topic: str, leader_epoch: int, version: int | None = None, **bent: int) -> Any:
    partition = OffsetForLeaderPartition(
        partition=bent.get("partition", 0),
        current_leader_epoch=bent.get("current_leader_epoch", -1),
        leader_epoch=leader_epoch,
    )
    wanted = OffsetForLeaderTopic(topic=topic, partitions=[partition])
    return wire(OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted]), version).topics[0].partitions[0]


class TestOffsetForLeaderEpoch:
    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_end_of_the_log_is_answered_when_the_epoch_is_the_current(
        self, wire: Wire, filled: Topic, version: int
    ) -> None:
        answer = epoch_end(wire, filled.name, 0, version)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 6)

    @pytest.mark.parametrize("epoch", [1, 99, -1])
    def test_nothing_is_answered_when_the_epoch_never_was(self, wire: Wire, filled: Topic, epoch: int) -> None:
        answer = epoch_end(wire, filled.name, epoch)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)

    def test_end_is_0_when_the_log_is_empty(self, wire: Wire, topic: Topic) -> None:
        answer = epoch_end(wire, topic.name, 0)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 0)

    def test_current_epoch_is_unknown_when_newer_than_the_brokers(self, wire: Wire, filled: Topic) -> None:
        answer = epoch_end(wire, filled.name, 0, current_leader_epoch=3)
        assert error_of(answer) == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_partition_is_unknown_when_it_does_not_exist(self, wire: Wire, topic: Topic) -> None:
        for answer in (epoch_end(wire, new_name(), 0), epoch_end(wire, topic.name, 0, partition=1)):
            assert error_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (answer.leader_epoch, answer.end_offset) == (-1, -1)
