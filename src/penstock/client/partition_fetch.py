"""Records of one partition, and where its offsets begin and end.

A fetch that waits for records holds up the connection: give `fetch` `dedicated` brokers, one set for each
reader that waits.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from penstock.client.batches.fetched_batches import AbortedTransactions, Section, find_batches, open_sections
from penstock.client.brokers import Brokers
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.record_reading import read_records
from penstock.protocol.records import Headers

__all__ = ["EARLIEST", "LATEST", "Fetched", "FetchedRecord", "decode_fetched", "fetch", "offset_of"]

# Timestamps that ListOffsets understands.
LATEST = -1
EARLIEST = -2


_NO_END = 2**63 - 1
_MOST_BYTES = 2**31 - 1
# Larger answers are decoded beside the loop: these bytes take about 1 ms.
_DECODED_AT_ONCE = 128 * 1024
# Records that were compressed well may be many times what was fetched. Batches behind this many times `max_bytes` are
# left for the next fetch.
_MOST_EXPANSION = 8


class FetchedRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Fetched(NamedTuple):
    """`next_offset` is where to go on; it may move without records, past markers and aborted transactions."""

    records: list[FetchedRecord]
    next_offset: int
    high_watermark: int
    last_stable_offset: int


async def fetch(
    brokers: Brokers,
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int = 1024 * 1024,
    wait_ms: int = 500,
    committed: bool = True,
) -> Fetched:
    """The records from `offset` on, about `max_bytes` of them before they are decompressed, at least one batch. Waits
    for up to `wait_ms` while there is none. `committed` leaves out aborted transactions, and what is behind the first
    open one; markers are always left out. Follows leaders that move. Raises ApiError (OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, CORRUPT_MESSAGE) and OSError."""
    size = max_bytes
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=size,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        timeout_s = brokers.timeout_s + wait_ms / 1000
        answer: FetchResponse = await brokers.ask_leader(topic, partition, request, timeout_s=timeout_s, retry=True)
        _raise_for(answer.error_code, topic, partition)
        data = answer.responses[0].partitions[0]
        _raise_for(data.error_code, topic, partition)
        fetched = await decode_fetched(data, offset, max_bytes, committed)
        if fetched is not None or size == _MOST_BYTES:
            return fetched or Fetched([], offset, data.high_watermark, data.last_stable_offset)
        size = min(_MOST_BYTES, 2 * max(size, len(data.records or b"")))  # a batch that is larger was cut off


async def offset_of(brokers: Brokers, topic: str, partition: int, at: int, *, committed: bool = False) -> int:
    """EARLIEST: the first offset that is there. LATEST: the one behind the last record (with `committed`: the last
    stable offset). A timestamp in ms: the first record that is not older, or -1 where there is none."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=at)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=int(committed), topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    answer: ListOffsetsResponse = await brokers.ask_leader(topic, partition, request, retry=True)
    found = answer.topics[0].partitions[0]
    _raise_for(found.error_code, topic, partition)
    return found.offset


def _raise_for(code: int, topic: str, partition: int) -> None:
    if code != ErrorCode.NONE:
        error = error_of(code)
        raise ApiError(error.code, f"partition {partition} of topic {topic}: {error.message}")


async def decode_fetched(data: PartitionData, offset: int, max_bytes: int, committed: bool) -> Fetched | None:
    """What an answer has of one partition. None where the bytes hold no whole batch."""
    records = data.records
    if not records:
        return Fetched([], offset, data.high_watermark, data.last_stable_offset)
    assert isinstance(records, bytes | bytearray | memoryview), "what came over the wire is in memory"
    found = find_batches(records)
    if not found:
        return None
    is_small = len(records) <= _DECODED_AT_ONCE and all(each.header.compression == Codec.NONE for each in found)
    aborted = None
    if committed:
        listed = data.aborted_transactions or []
        aborted = AbortedTransactions((each.first_offset, each.producer_id) for each in listed)

    def decode() -> tuple[list[FetchedRecord], int]:
        taken: list[FetchedRecord] = []
        size = 0
        for section in open_sections(records, found, aborted, offset, _NO_END):
            if taken and size + len(section.records) > _MOST_EXPANSION * max_bytes:
                return taken, section.header.base_offset
            taken += _read(section, offset)
            size += len(section.records)
        return taken, max(offset, found[-1].header.next_offset)

    taken, next_offset = decode() if is_small else await asyncio.to_thread(decode)
    return Fetched(taken, next_offset, data.high_watermark, data.last_stable_offset)


def _read(section: Section, start: int) -> list[FetchedRecord]:
    make = tuple.__new__  # half the cost of `_make`
    rows = read_records(section.header, section.records)
    if rows and rows[0][0] < start:
        rows = [row for row in rows if row[0] >= start]
    return [make(FetchedRecord, row) for row in rows]
