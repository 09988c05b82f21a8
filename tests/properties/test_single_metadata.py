"""The parser of the commonest metadata request against the general codec."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from penstock.core.types import ZERO_TOPIC_ID, TopicId
from penstock.protocol.codec import decode_prefix, encode
from penstock.protocol.errors import ApiError
from penstock.protocol.framing import decode_client_id, encode_request_header
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.single_metadata import FIRST_VERSION, parse_single_metadata

VERSIONS = st.integers(FIRST_VERSION, 13)
TOPICS = st.builds(
    MetadataRequestTopic,
    name=st.none() | st.text(st.characters(codec="utf-8"), max_size=150),
    topic_id=st.just(ZERO_TOPIC_ID) | st.binary(min_size=16, max_size=16).map(TopicId),
)
OPTIONS = {"allow_auto_topic_creation": st.booleans(), "include_topic_authorized_operations": st.booleans()}
REQUESTS = st.builds(MetadataRequest, topics=st.none() | st.lists(TOPICS, max_size=2), **OPTIONS)
REQUESTS_WITH_CLUSTER = st.builds(
    MetadataRequest,
    topics=st.lists(TOPICS, min_size=1, max_size=1),
    include_cluster_authorized_operations=st.booleans(),
    **OPTIONS,
)


def _frame(request: MetadataRequest, version: int) -> bytes:
    return encode_request_header(3, version, 7, "client", True) + encode(request, version)


def _is_single(request: MetadataRequest) -> bool:
    if request.topics is None or len(request.topics) != 1:
        return False
    (topic,) = request.topics
    is_plain = not request.include_topic_authorized_operations and not request.include_cluster_authorized_operations
    return bool(topic.name) and topic.topic_id == ZERO_TOPIC_ID and is_plain


def _check(request: MetadataRequest, version: int) -> None:
    frame = _frame(request, version)
    _, position = decode_client_id(frame, flexible=True)
    parsed = parse_single_metadata(frame, version, position)
    if parsed is None:
        # A name of 127 bytes or more has a longer length in the compact form, which is left to the general codec.
        names = [topic.name or "" for topic in request.topics or ()]
        assert not _is_single(request) or len(names[0].encode()) > 126
        return
    assert _is_single(request)
    assert [topic.name for topic in request.topics or ()] == [parsed]


@settings(max_examples=300, deadline=None)
@given(REQUESTS, VERSIONS)
def test_name_is_that_of_the_general_codec_when_parsed(request: MetadataRequest, version: int) -> None:
    _check(request, version)


@settings(max_examples=100, deadline=None)
@given(REQUESTS_WITH_CLUSTER)
def test_request_for_permissions_is_left_to_the_general_codec_when_version_is_10(request: MetadataRequest) -> None:
    _check(request, 10)


@settings(max_examples=500, deadline=None)
@given(REQUESTS, VERSIONS, st.data())
def test_parser_never_accepts_what_the_general_codec_refuses_when_bytes_change(
    request: MetadataRequest, version: int, data: st.DataObject
) -> None:
    frame = bytearray(_frame(request, version))
    position = data.draw(st.integers(8, len(frame) - 1))
    frame[position] = data.draw(st.integers(0, 255))
    changed = bytes(frame[: data.draw(st.integers(9, len(frame)))])
    try:
        _, start = decode_client_id(changed, flexible=True)
    except ApiError:
        return
    parsed = parse_single_metadata(changed, version, start)
    if parsed is None:
        return
    decoded, _ = decode_prefix(MetadataRequest, changed, version, start)
    assert [(topic.name, topic.topic_id) for topic in decoded.topics or ()] == [(parsed, ZERO_TOPIC_ID)]
    assert not decoded.include_topic_authorized_operations
