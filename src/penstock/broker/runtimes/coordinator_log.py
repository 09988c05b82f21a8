"""A coordinator's partition: read from its beginning, piece by piece, so that others get their turns, and written
in batches that fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.broker.partitions.partition import Partition
from penstock.protocol.batch import HEADER_SIZE, BatchHeader, is_crc_valid, read_header
from penstock.protocol.errors import ApiError, ErrorCode

# One turn of the loop: long enough to be efficient, short enough that other clients do not notice.
_PIECE_SIZE = 256 * 1024
# Records per batch where they may be split: a large clean-up then stays below any max.message.bytes.
_SPLIT_RECORDS = 1_000

RecordType = TypeVar("RecordType")

# Gets every batch with its header.
TakeBatch = Callable[[BatchHeader, bytes], None]


async def replay_log(partition: Partition, take: TakeBatch, is_wanted: Callable[[], bool]) -> bool:
    """Hands over every batch that the log holds now; False when the topic was deleted meanwhile. ApiError
    (CORRUPT_MESSAGE) for a damaged batch.
    """
    log = partition.log
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        found = log.reader.read(offset, _PIECE_SIZE, end, at_least_one=True)
        if found is None or not len(found):
            break
        offset = _take_batches(found.read(0, len(found)), offset, take)
        await asyncio.sleep(0)
        if not is_wanted():
            return False
    return True


def _take_batches(data: bytes, offset: int, take: TakeBatch) -> int:
    """The offset after the last whole batch of `data`, which may end in the middle of one."""
    position = 0
    while len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        if not is_crc_valid(data, position, header):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is damaged")
        take(header, data[position : position + header.size])
        position += header.size
        offset = header.next_offset
    return offset


def split_records(records: Sequence[RecordType], is_atomic: bool) -> Iterator[Sequence[RecordType]]:
    """What goes into one batch each: everything, where only all of it makes sense."""
    if is_atomic:
        yield records
        return
    for start in range(0, len(records), _SPLIT_RECORDS):
        yield records[start : start + _SPLIT_RECORDS]
