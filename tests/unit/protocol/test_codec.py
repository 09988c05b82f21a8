"""Exact bytes, written out by hand from Kafka's message definitions; random messages are in `properties`."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from penstock.protocol import codec
from penstock.protocol.codec import decode, decode_prefix, encode, encode_chunks
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from penstock.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.varints import read_unsigned_varint, write_unsigned_varint

ID = bytes(range(16))

CASES: list[tuple[Message, int, str]] = [
    # Lengths of two and four bytes before the flexible versions...
    (MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 0, "00000001 0002 6162"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=[]), 1, "00000000"),
    (MetadataRequest(topics=[], allow_auto_topic_creation=True), 4, "00000000 01"),
    # ...and of one varint, one more than the length, from them on; each struct ends with its tagged fields.
    (
        MetadataRequest(topics=[MetadataRequestTopic(topic_id=ID, name=None)], allow_auto_topic_creation=False),
        12,
        "02" + ID.hex() + "00 00" + "00 00 00",
    ),
    (MetadataRequest(topics=None), 12, "00 01 00 00"),
    (ApiVersionsRequest(), 0, ""),
    (ApiVersionsRequest(client_software_name="n", client_software_version="1.0"), 3, "026e 04312e30 00"),
    # A length of 127 needs two bytes, as it is sent as 128.
    (ApiVersionsRequest(client_software_name="n" * 127), 3, "8001" + "6e" * 127 + "01 00"),
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)], timeout_ms=9, validate_only=True
        ),
        2,
        "00000001 0001 74 00000003 0001 00000000 00000000 00000009 01",
    ),
    (
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=2, records=b"rec")])],
        ),
        3,
        "ffff ffff 00000001 00000001 0001 74 00000001 00000002 00000003 726563",
    ),
    (
        ProduceRequest(
            acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData()])]
        ),
        9,
        "00 0001 00000001 02 0274 02 00000000 00 00 00 00",
    ),
    # A nullable struct is announced by a byte.
    (DescribeTopicPartitionsRequest(response_partition_limit=7), 0, "01 00000007 ff 00"),
    (
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="t")],
            response_partition_limit=7,
            cursor=DescribeTopicPartitionsRequestCursor(topic_name="t", partition_index=1),
        ),
        0,
        "02 0274 00 00000007 01 0274 00000001 00 00",
    ),
    # A tagged field is there only if it is not the default: tag, size, content.
    (
        FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        PartitionData(
                            partition_index=1,
                            high_watermark=5,
                            last_stable_offset=5,
                            log_start_offset=0,
                            diverging_epoch=EpochEndOffset(epoch=3, end_offset=4),
                            preferred_read_replica=-1,
                            records=b"rec",
                        )
                    ],
                )
            ]
        ),
        12,
        (
            "00000000 0000 00000000 02 0274 02"
            "00000001 0000 0000000000000005 0000000000000005 0000000000000000 00 ffffffff 04 726563"
            "01 00 0d 00000003 0000000000000004 00"
            "00 00"
        ),
    ),
]


@pytest.mark.parametrize(("message", "version", "expected"), CASES)
def test_message_has_these_bytes_when_encoded(message: Message, version: int, expected: str) -> None:
    data = bytes.fromhex(expected)
    assert encode(message, version) == data
    assert encode(decode(type(message), data, version), version) == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_fields_are_the_same_when_read_from_any_buffer(kind: type[bytes]) -> None:
    data = kind(bytes.fromhex("00 ffff 00000001 02 0274 02 00000002 04 726563 00 00 00"))
    request = decode(ProduceRequest, data, 9)
    partition = request.topic_data[0].partition_data[0]
    assert (request.transactional_id, request.acks, request.topic_data[0].name, partition.index) == (None, -1, "t", 2)
    assert isinstance(partition.records, memoryview)
    assert bytes(partition.records) == b"rec"


def test_defaults_stand_when_a_version_has_no_such_field() -> None:
    request = decode(MetadataRequest, bytes.fromhex("00000000"), 0)
    assert request.allow_auto_topic_creation is True
    assert decode(FetchRequest, encode(FetchRequest(), 4), 4).session_epoch == -1


def test_records_are_passed_on_by_reference_when_encoded() -> None:
    records = memoryview(bytearray(b"r" * 1000))
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)] * 2)
    chunks = encode_chunks(FetchResponse(responses=[topic]), 12, b"head")
    assert [chunk for chunk in chunks if chunk is records] == [records, records]
    assert bytes(chunks[0][:4]) == b"head"  # type: ignore[index]
    assert b"".join(chunks)[4:] == encode(FetchResponse(responses=[topic]), 12)  # type: ignore[arg-type]


def test_unknown_tagged_fields_are_skipped_when_a_newer_client_sends_them() -> None:
    data = bytes.fromhex("026e 04312e30 02 05 03 616263 ff7f 00")
    request = decode(ApiVersionsRequest, data, 3)
    assert (request.client_software_name, request.client_software_version) == ("n", "1.0")


def test_rest_is_left_alone_when_a_message_does_not_fill_the_data() -> None:
    message, end = decode_prefix(MetadataRequest, b"??" + bytes.fromhex("00000000") + b"rest", 0, 2)
    assert (message.topics, end) == ([], 6)
    with pytest.raises(ApiError, match="4 bytes too many"):
        decode(MetadataRequest, bytes.fromhex("00000000") + b"rest", 0)


MALFORMED: list[tuple[str, type[Message], int, str]] = [
    ("nothing", MetadataRequest, 0, ""),
    ("half a count", MetadataRequest, 0, "0000"),
    ("null where none is allowed", MetadataRequest, 0, "ffffffff"),
    ("a negative count", MetadataRequest, 1, "fffffffe"),
    ("more elements than bytes", MetadataRequest, 1, "7fffffff 0000"),
    ("a name past the end", MetadataRequest, 1, "00000001 0005 6162"),
    ("a negative length", MetadataRequest, 1, "00000001 fffe"),
    ("a null name in an old version", MetadataRequest, 1, "00000001 ffff"),
    ("a name that is not UTF-8", MetadataRequest, 1, "00000001 0002 c328"),
    ("a surrogate", MetadataRequest, 1, "00000001 0003 eda080"),
    ("half a uuid", MetadataRequest, 12, "02 0001020304"),
    ("an endless number", ApiVersionsRequest, 3, "ffffffffffffff01"),
    ("a compact name past the end", ApiVersionsRequest, 3, "7f 6e"),
    ("a null compact name", ApiVersionsRequest, 3, "00 0131 00"),
    ("no tagged fields", ApiVersionsRequest, 3, "026e 0231"),
    ("more tagged fields than bytes", ApiVersionsRequest, 3, "026e 0231 7f 00"),
    ("a tagged field past the end", ApiVersionsRequest, 3, "026e 0231 01 00 09 00"),
    ("a known tagged field of the wrong size", FetchResponse, 12, CASES[-1][2].replace("01 00 0d", "01 00 0c")),
    ("bytes past the end", ProduceRequest, 3, "ffff ffff 00000001 00000001 0001 74 00000001 00000002 00ffffff 72"),
    ("a struct that is cut short", DescribeTopicPartitionsRequest, 0, "01 00000007 01 0274 0000"),
]


@pytest.mark.parametrize(("name", "message", "version", "data"), MALFORMED)
def test_message_is_invalid_when_malformed(name: str, message: type[Message], version: int, data: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(message, bytes.fromhex(data), version)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_message_is_invalid_when_it_is_cut_anywhere(case: tuple[Message, int, str]) -> None:
    message, version, text = case
    data = bytes.fromhex(text)
    for size in range(len(data)):
        with pytest.raises(ApiError):
            decode(type(message), data[:size], version)


@pytest.mark.parametrize("version", [-1, 14])
def test_version_is_unsupported_when_the_message_has_none_such(version: int) -> None:
    for use in (lambda: encode(MetadataRequest(), version), lambda: decode(MetadataRequest, b"", version)):
        with pytest.raises(ApiError) as caught:
            use()
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


def varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_number_has_these_bytes_when_its_length_varies(value: int, data: str) -> None:
    assert varint(value).hex() == data
    assert read_unsigned_varint(bytes.fromhex(data), 0) == (value, len(data) // 2)


class TestLimits:
    """A handler works on every element, so there must be few enough of them for everybody else to be served."""

    def names(self, count: int) -> bytes:
        return varint(count + 1) + b"\x01" * count

    def test_request_is_invalid_when_it_names_too_many_things(self) -> None:
        limit = codec.MAX_REQUEST_ELEMENTS
        for count, fits in ((limit, True), (limit + 1, False)):
            data = struct.pack(">i", count) + b"\0\0" * count
            if fits:
                assert len(decode(MetadataRequest, data, 0).topics or ()) == count
            else:
                with pytest.raises(ApiError, match="more than 100,000 elements"):
                    decode(MetadataRequest, data, 0)

    def test_request_is_invalid_when_its_nested_arrays_are_too_many_together(self) -> None:
        half = codec.MAX_REQUEST_ELEMENTS // 2
        group = (
            b"\x02g" + b"\x00" + b"\xff\xff\xff\xff" + b"\x02" + b"\x02t" + varint(half + 1) + bytes(4 * half) + b"\0\0"
        )
        one = b"\x02" + group + b"\x01\x00"
        assert decode(OffsetFetchRequest, one, 9).groups[0].topics is not None
        with pytest.raises(ApiError, match="more than 100,000 elements"):
            decode(OffsetFetchRequest, b"\x03" + group * 2 + b"\x01\x00", 9)

    def test_request_is_invalid_when_it_has_too_many_tagged_fields(self) -> None:
        """Fifty million of them fit into a frame, and would take half a minute to skip."""
        count = codec.MAX_REQUEST_ELEMENTS + 1
        with pytest.raises(ApiError, match="tagged fields"):
            decode(ApiVersionsRequest, b"\x02n\x021" + varint(count) + b"\x05\x00" * count, 3)

    def test_answer_may_be_larger_when_it_comes_from_a_broker(self) -> None:
        count = codec.MAX_REQUEST_ELEMENTS + 1
        rows = struct.pack(">hhh", 0, 0, 1) * count
        answer: Any = decode(ApiVersionsResponse, struct.pack(">hi", 0, count) + rows, 0)
        assert len(answer.api_keys) == count


def test_null_is_refused_when_the_protocol_knows_none_there() -> None:
    with pytest.raises(TypeError):
        encode(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 1)


def test_empty_array_is_sent_when_a_version_knows_no_null() -> None:
    assert encode(MetadataRequest(topics=None), 0) == bytes(4)
    assert encode(MetadataResponse(brokers=None, topics=None), 0) == bytes(8)


@pytest.mark.parametrize("version", [CreateTopicsRequest.MIN_VERSION, CreateTopicsRequest.MAX_VERSION])
def test_string_of_a_request_is_refused_when_no_broker_would_read_it(version: int) -> None:
    encode(CreateTopicsRequest(topics=[CreatableTopic(name="n" * 32_767)]), version)
    with pytest.raises(struct.error):
        encode(CreateTopicsRequest(topics=[CreatableTopic(name="n" * 32_768)]), version)
