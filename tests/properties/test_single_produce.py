"""The codec of the hottest request against the general one."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from penstock.protocol.codec import decode_prefix, encode
from penstock.protocol.errors import ApiError
from penstock.protocol.framing import decode_client_id, encode_request_header, encode_response_header
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.protocol.single_produce import FIRST_VERSION, LAST_VERSION, AnswerTemplate, parse_single_produce

VERSIONS = st.integers(FIRST_VERSION, LAST_VERSION)
NAMES = st.text(st.characters(codec="utf-8"), max_size=150)
PARTITIONS = st.builds(
    PartitionProduceData, index=st.integers(-1, 2**31 - 1), records=st.none() | st.binary(max_size=300)
)
TOPICS = st.builds(TopicProduceData, name=NAMES, partition_data=st.lists(PARTITIONS, max_size=2))
REQUESTS = st.builds(
    ProduceRequest,
    transactional_id=st.none() | st.text(max_size=3),
    acks=st.integers(-3, 3),
    timeout_ms=st.integers(0, 2**31 - 1),
    topic_data=st.lists(TOPICS, max_size=2),
)


def _frame(request: ProduceRequest, version: int, client_id: str | None) -> bytes:
    flexible = version >= ProduceRequest.FLEXIBLE_FROM
    return encode_request_header(0, version, 7, client_id, flexible) + encode(request, version)


def _is_single(request: ProduceRequest) -> bool:
    if request.transactional_id is not None or len(request.topic_data) != 1:
        return False
    (topic,) = request.topic_data
    return len(topic.partition_data) == 1 and topic.partition_data[0].records is not None and bool(topic.name)


@settings(max_examples=500, deadline=None)
@given(REQUESTS, VERSIONS, st.none() | st.text(max_size=5))
def test_values_are_those_of_the_general_codec_when_parsed(
    request: ProduceRequest, version: int, client_id: str | None
) -> None:
    frame = _frame(request, version, client_id)
    named, position = decode_client_id(frame, version >= ProduceRequest.FLEXIBLE_FROM)
    parsed = parse_single_produce(frame, version, position)
    if parsed is None:
        # A name of 127 bytes or more has a longer length in the compact form, which is left to the general codec.
        assert not _is_single(request) or len(request.topic_data[0].name.encode()) > 126
        return
    assert _is_single(request)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (parsed.topic, parsed.partition, parsed.acks) == (topic.name, partition.index, request.acks)
    assert bytes(parsed.records) == partition.records
    assert named == client_id


@settings(max_examples=500, deadline=None)
@given(REQUESTS, VERSIONS, st.data())
def test_parser_never_accepts_what_the_general_codec_refuses_when_bytes_change(
    request: ProduceRequest, version: int, data: st.DataObject
) -> None:
    frame = bytearray(_frame(request, version, "client"))
    position = data.draw(st.integers(8, len(frame) - 1))
    frame[position] = data.draw(st.integers(0, 255))
    changed = bytes(frame[: data.draw(st.integers(9, len(frame)))])
    try:
        _, start = decode_client_id(changed, version >= ProduceRequest.FLEXIBLE_FROM)
    except ApiError:
        return
    parsed = parse_single_produce(changed, version, start)
    if parsed is None:
        return
    decoded, _ = decode_prefix(ProduceRequest, changed, version, start)
    (topic,) = decoded.topic_data
    (partition,) = topic.partition_data
    assert (parsed.topic, parsed.partition, parsed.acks) == (topic.name, partition.index, decoded.acks)
    assert parsed.records == partition.records


@given(
    NAMES.filter(bool),
    VERSIONS,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)
def test_answer_is_that_of_the_general_codec_when_filled(
    name: str, version: int, correlation_id: int, index: int, base_offset: int, time_ms: int, log_start: int
) -> None:
    if len(name.encode()) > 126:
        return
    partition = PartitionProduceResponse(
        index=index, base_offset=base_offset, log_append_time_ms=time_ms, log_start_offset=log_start
    )
    response = ProduceResponse(responses=[TopicProduceResponse(name=name, partition_responses=[partition])])
    flexible = version >= ProduceResponse.FLEXIBLE_FROM
    expected = encode_response_header(correlation_id, flexible) + encode(response, version)
    filled = AnswerTemplate(name, version).fill(correlation_id, index, base_offset, time_ms, log_start)
    assert bytes(filled) == len(expected).to_bytes(4, "big") + expected
