"""A follower's check of its leader's batches: whole batches, undamaged, that follow its own last offset.

A fetch response ends at its size limit, so its last batch may be cut off. The follower leaves that batch out and
fetches it again.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.types import NO_TIMESTAMP, Buffer, TopicPartition
from penstock.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, is_crc_valid, read_header
from penstock.protocol.errors import ApiError, ErrorCode


class FollowerBatches(NamedTuple):
    headers: list[tuple[int, BatchHeader]]  # position in the buffer, header
    size: int  # bytes up to the end of the last whole batch
    max_timestamp: int


def read_follower_batches(records: Buffer, next_offset: int, topic_partition: TopicPartition) -> FollowerBatches:
    """The whole batches of a fetch response, in order and undamaged; ApiError otherwise."""
    headers: list[tuple[int, BatchHeader]] = []
    position, end, max_timestamp = 0, len(records), NO_TIMESTAMP
    while end - position >= HEADER_SIZE:
        header = read_header(records, position)
        if header.magic != MAGIC or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the leader of {topic_partition} sent a batch that is none")
        if position + header.size > end:
            break
        if not is_crc_valid(records, position, header):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the leader of {topic_partition} sent a damaged batch")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the leader of {topic_partition} sent offset {header.base_offset} where {next_offset} is next",
            )
        headers.append((position, header))
        max_timestamp = max(max_timestamp, header.max_timestamp)
        next_offset = header.next_offset
        position += header.size
    return FollowerBatches(headers, position, max_timestamp)
