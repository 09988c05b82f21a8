"""The produce request that almost every produce request is: one topic, one partition, no transaction; and its answer.

A codec of its own for one shape of one message, because it is the hottest: reading it here and patching a ready-made
answer saves two thirds of the time between socket and log. Whatever has another shape is left to the general codec,
and a property test holds both to the same bytes and values.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_response_header
from penstock.protocol.message import Buffer
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.varints import read_unsigned_varint

FIRST_VERSION = 3
LAST_VERSION = 12  # from 13 on topics have ids instead of names

# The body up to the length of the topic's name.
_FLEXIBLE_HEAD = struct.Struct(">BhiBB")  # transactional id, acks, timeout, topics, length of the name
_PLAIN_HEAD = struct.Struct(">hhiih")  # transactional id, acks, timeout, topics, length of the name
_PLAIN_PARTITION = struct.Struct(">iii")  # partitions, index, length of the records
_FLEXIBLE_PARTITION = struct.Struct(">Bi")  # partitions, index
# The sizes by themselves: an attribute of a Struct takes as long as a call.
_FLEXIBLE_HEAD_SIZE, _FLEXIBLE_PARTITION_SIZE = _FLEXIBLE_HEAD.size, _FLEXIBLE_PARTITION.size
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_ONE = 2  # a compact count is one more than it says
_LOG_START_SINCE = 5


class SingleProduce(NamedTuple):
    topic: str
    partition: int
    acks: int
    records: memoryview


def parse_single_produce(frame: Buffer, version: int, position: int) -> SingleProduce | None:
    """Reads the body that begins at `position`. None for any other shape, and for anything odd: the general decoder
    finds the words for that.
    """
    try:
        if version >= ProduceRequest.FLEXIBLE_FROM:
            return _parse_flexible(frame, position)
        return _parse_plain(frame, position)
    except (struct.error, IndexError, ValueError):
        return None


def _parse_flexible(frame: Buffer, position: int) -> SingleProduce | None:
    transactional_id, acks, _, topics, name_size = _FLEXIBLE_HEAD.unpack_from(frame, position)
    if transactional_id or topics != _ONE or not 1 < name_size < 128:
        return None
    start = position + _FLEXIBLE_HEAD_SIZE
    position = start + name_size - 1
    topic = str(frame[start:position], "utf-8")
    partitions, index = _FLEXIBLE_PARTITION.unpack_from(frame, position)
    size, position = read_unsigned_varint(frame, position + _FLEXIBLE_PARTITION_SIZE)
    end = position + size - 1
    if partitions != _ONE or size < 1 or frame[end:] != _NO_TAGS:
        return None
    return tuple.__new__(SingleProduce, (topic, index, acks, memoryview(frame)[position:end]))


def _parse_plain(frame: Buffer, position: int) -> SingleProduce | None:
    transactional_id, acks, _, topics, name_size = _PLAIN_HEAD.unpack_from(frame, position)
    if transactional_id != -1 or topics != 1 or name_size < 1:
        return None
    start = position + _PLAIN_HEAD.size
    position = start + name_size
    topic = str(frame[start:position], "utf-8")
    partitions, index, size = _PLAIN_PARTITION.unpack_from(frame, position)
    position += _PLAIN_PARTITION.size
    if partitions != 1 or size < 0 or position + size != len(frame):
        return None
    return tuple.__new__(SingleProduce, (topic, index, acks, memoryview(frame)[position:]))


class AnswerTemplate:
    """The general codec's answer for one topic and version, with the places where the numbers go."""

    __slots__ = ("_bytes", "_numbers", "_position")

    def __init__(self, topic: str, version: int) -> None:
        flexible = version >= ProduceResponse.FLEXIBLE_FROM
        response = ProduceResponse(
            responses=[TopicProduceResponse(name=topic, partition_responses=[PartitionProduceResponse()])]
        )
        body = encode_response_header(0, flexible) + encode(response, version)
        self._bytes = struct.pack(">i", len(body)) + body
        name_size = len(topic.encode())
        # size and correlation id; tags, topics, length, name, partitions; or the same with wide counts
        self._position = 8 + (4 + name_size if flexible else 10 + name_size)
        self._numbers = struct.Struct(">ihqqq" if version >= _LOG_START_SINCE else ">ihqq")

    def fill(
        self, correlation_id: int, index: int, base_offset: int, log_append_time_ms: int, log_start: int
    ) -> bytearray:
        answer = bytearray(self._bytes)
        _CORRELATION_ID.pack_into(answer, 4, correlation_id)
        if self._numbers.size == _WITHOUT_LOG_START:
            self._numbers.pack_into(answer, self._position, index, 0, base_offset, log_append_time_ms)
        else:
            self._numbers.pack_into(answer, self._position, index, 0, base_offset, log_append_time_ms, log_start)
        return answer


_CORRELATION_ID = struct.Struct(">i")
_WITHOUT_LOG_START = struct.calcsize(">ihqq")
