from __future__ import annotations

import pytest

from penstock.coordinators.record_framing import UnknownRecord
from penstock.core.types import NO_LEADER_EPOCH, NO_TIMESTAMP
from penstock.groups.records.consumer_offsets import (
    CommittedOffset,
    GroupChange,
    OffsetChange,
    RecordedGroup,
    RecordedMember,
    decode_record,
    encode_group,
    encode_offset,
)
from penstock.protocol.errors import ApiError, ErrorCode

# All bytes below were written by Kafka 4.3.1 (GroupCoordinatorRecordSerde).
OFFSET_KEY = bytes.fromhex("0001000567726f757000066f726465727300000003")
LEGACY_OFFSET_KEY = bytes.fromhex("0000000567726f757000066f726465727300000003")
OFFSET_VALUES = {
    0: "0000000000000000002a00046e6f74650000018bcfe56800",
    1: "0001000000000000002a00046e6f74650000018bcfe568000000018bcfe65260",
    2: "0002000000000000002a00046e6f74650000018bcfe56800",
    3: "0003000000000000002a0000000500046e6f74650000018bcfe56800",
    4: "0004000000000000002a00000005056e6f74650000018bcfe5680001001000000000000000010000000000000002",
}
GROUP_KEY = bytes.fromhex("0002000567726f7570")
GROUP_VALUES = {
    0: "00000008636f6e73756d657200000007000572616e67650008636c69656e742d31000000010008636c69656e742d310006636c69656e74"
    "000a2f3132372e302e302e31000027100000000201020000000103",
    1: "00010008636f6e73756d657200000007000572616e67650008636c69656e742d31000000010008636c69656e742d310006636c69656e74"
    "000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    2: "00020008636f6e73756d657200000007000572616e67650008636c69656e742d310000018bcfe56800000000010008636c69656e742d31"
    "0006636c69656e74000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    3: "00030008636f6e73756d657200000007000572616e67650008636c69656e742d310000018bcfe56800000000010008636c69656e742d31"
    "0008696e7374616e63650006636c69656e74000a2f3132372e302e302e310000ea60000027100000000201020000000103",
    4: "000409636f6e73756d6572000000070672616e676509636c69656e742d310000018bcfe568000209636c69656e742d3109696e7374616e"
    "636507636c69656e740b2f3132372e302e302e310000ea600000271003010202030000",
}
EMPTY_GROUP_VALUE = "0003000000000000ffffffff0000018bcfe5680000000000"

TIME_MS = 1_700_000_000_000
TOPIC_ID = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")


def offset_of_version(version: int) -> CommittedOffset:
    return CommittedOffset(
        offset=42,
        leader_epoch=5 if version >= 3 else NO_LEADER_EPOCH,
        metadata="note",
        commit_timestamp_ms=TIME_MS,
        expire_timestamp_ms=TIME_MS + 60_000 if version == 1 else NO_TIMESTAMP,
        topic_id=TOPIC_ID if version == 4 else bytes(16),
    )


def group_of_version(version: int) -> RecordedGroup:
    member = RecordedMember(
        member_id="client-1",
        group_instance_id="instance" if version >= 3 else None,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000 if version >= 1 else 10_000,
        session_timeout_ms=10_000,
        subscription=b"\x01\x02",
        assignment=b"\x03",
    )
    return RecordedGroup("consumer", 7, "range", "client-1", TIME_MS if version >= 2 else NO_TIMESTAMP, (member,))


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_offset_is_read_when_kafka_wrote_it(version: int) -> None:
    value = bytes.fromhex(OFFSET_VALUES[version])
    assert decode_record(OFFSET_KEY, value) == OffsetChange("group", "orders", 3, offset_of_version(version))


def test_offset_is_read_when_the_key_is_of_the_oldest_kind() -> None:
    change = decode_record(LEGACY_OFFSET_KEY, bytes.fromhex(OFFSET_VALUES[0]), record_offset=9)
    assert isinstance(change, OffsetChange)
    assert change.committed is not None
    assert (change.group_id, change.committed.offset, change.committed.record_offset) == ("group", 42, 9)


@pytest.mark.parametrize("version", [1, 3, 4])
def test_offset_is_written_as_kafka_does_when_the_version_fits(version: int) -> None:
    record = encode_offset("group", "orders", 3, offset_of_version(version))
    assert record == (OFFSET_KEY, bytes.fromhex(OFFSET_VALUES[version]))


@pytest.mark.parametrize("version", GROUP_VALUES)
def test_group_is_read_when_kafka_wrote_it(version: int) -> None:
    assert decode_record(GROUP_KEY, bytes.fromhex(GROUP_VALUES[version])) == GroupChange(
        "group", group_of_version(version)
    )


def test_group_is_written_as_kafka_does_when_it_has_a_generation() -> None:
    assert encode_group("group", group_of_version(3)) == (GROUP_KEY, bytes.fromhex(GROUP_VALUES[3]))


def test_group_is_written_as_kafka_does_when_it_is_new() -> None:
    new = RecordedGroup(state_timestamp_ms=TIME_MS)
    assert encode_group("group", new) == (GROUP_KEY, bytes.fromhex(EMPTY_GROUP_VALUE))
    assert decode_record(GROUP_KEY, bytes.fromhex(EMPTY_GROUP_VALUE)) == GroupChange("group", new)


def test_tombstones_are_read_when_the_value_is_null() -> None:
    assert encode_offset("group", "orders", 3, None) == (OFFSET_KEY, None)
    assert decode_record(OFFSET_KEY, None) == OffsetChange("group", "orders", 3, None)
    assert encode_group("group", None) == (GROUP_KEY, None)
    assert decode_record(GROUP_KEY, None) == GroupChange("group", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x63whatever", b"\x00\x00whatever"),
        (b"\x7f\xff", None),
        (OFFSET_KEY, b"\x00\x05" + bytes(40)),
        (GROUP_KEY, b"\x00\x05" + bytes(40)),
    ],
)
def test_record_is_unknown_when_newer_software_wrote_it(key: bytes, value: bytes | None) -> None:
    assert isinstance(decode_record(key, value), UnknownRecord)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (b"\xff\xff", None),
        (OFFSET_KEY[:-1], None),
        (OFFSET_KEY + b"x", None),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, b"\xff\xff"),
        (OFFSET_KEY, bytes.fromhex(OFFSET_VALUES[3])[:-1]),
        (GROUP_KEY, bytes.fromhex(GROUP_VALUES[3])[:-1]),
        (GROUP_KEY, bytes.fromhex(GROUP_VALUES[3]) + b"x"),
    ],
)
def test_record_is_refused_when_it_is_damaged(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ApiError) as caught:
        decode_record(key, value)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
