"""The benchmark's hand-made requests, read by the real codec."""

from __future__ import annotations

from typing import TypeVar

from bench.wire import api_versions_request, metadata_request, produce_error, produce_request, record_batch
from penstock.protocol.batch import is_crc_valid, read_header
from penstock.protocol.codec import decode, encode
from penstock.protocol.framing import decode_client_id, decode_request_header, encode_response_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.records import iterate_records

M = TypeVar("M", bound=Message)


def read(kind: type[M], framed: bytes) -> M:
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    frame = framed[4:]
    header = decode_request_header(frame)
    assert header.api_key == kind.API_KEY
    client_id, position = decode_client_id(frame, flexible=True)
    assert client_id == "bench"
    return decode(kind, frame, header.api_version, position)


def test_produce_request_holds_one_valid_record_when_decoded() -> None:
    request = read(ProduceRequest, produce_request("topic", 3, record_batch(b"x" * 1000, 1_000_000)))
    assert request.acks == -1
    [topic] = request.topic_data
    [partition] = topic.partition_data
    assert (topic.name, partition.index) == ("topic", 3)
    assert partition.records is not None
    batch = bytes(partition.records)
    assert is_crc_valid(batch, 0, read_header(batch))
    [record] = iterate_records(batch)
    assert (record.value, record.key, record.timestamp) == (b"x" * 1000, None, 1_000_000)


def test_error_is_found_when_the_response_has_one() -> None:
    for code in (0, 6, -1):
        partition = PartitionProduceResponse(index=0, error_code=code, base_offset=5)
        response = ProduceResponse(responses=[TopicProduceResponse(name="topic", partition_responses=[partition])])
        frame = encode_response_header(0, flexible=True) + encode(response, 10)
        assert produce_error(frame, "topic") == code


def test_metadata_request_names_the_topic_when_decoded() -> None:
    request = read(MetadataRequest, metadata_request("topic", may_create=True))
    assert request.topics is not None
    assert [topic.name for topic in request.topics] == ["topic"]
    assert request.allow_auto_topic_creation


def test_api_versions_request_introduces_the_client_when_decoded() -> None:
    assert read(ApiVersionsRequest, api_versions_request()).client_software_name == "bench"
