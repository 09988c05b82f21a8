"""What a Fetch answered: which batches are whole, which of them count, and their records. Bytes and decisions, no
I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.core.types import Buffer
from penstock.protocol import batch as batches
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import Codec, decompress
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, decode_end_marker, iterate_records


class Section(NamedTuple):
    """One batch's header and its records, decompressed."""

    header: BatchHeader
    records: Buffer


class FoundBatch(NamedTuple):
    position: int
    header: BatchHeader


def find_batches(data: Buffer) -> list[FoundBatch]:
    """The whole batches in `data`. A broker cuts at its byte limit, so the last one may be incomplete: left out."""
    whole: list[FoundBatch] = []
    position, end = 0, len(data)
    while end - position >= batches.HEADER_SIZE:
        magic = data[position + batches.MAGIC_POSITION]
        if magic != batches.MAGIC:
            raise ApiError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"records are stored in message format {magic}, older than Kafka 0.11; only format 2 can be read."
                " Copy the topic"
                " with a current producer",
            )
        header = batches.read_header(data, position)
        if header.batch_length < batches.HEADER_SIZE - batches.LOG_OVERHEAD or header.record_count < 0:
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} has an impossible size"
            )
        if position + header.size > end:
            break
        whole.append(FoundBatch(position, header))
        position += header.size
    return whole


class AbortedTransactions:
    """Which transactional batches a read_committed reader must not see, as the broker listed them for one answer.

    The list says where each aborted transaction begins; its abort marker ends it.
    """

    def __init__(self, listed: Iterable[tuple[int, int]]) -> None:
        """(first offset, producer id) of each."""
        self._coming = sorted(listed, reverse=True)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open.add(self._coming.pop()[1])
        return header.is_transactional and header.producer_id in self._open

    def see_marker(self, header: BatchHeader, control_type: int) -> None:
        self.hides(header)  # a transaction may begin and end within one answer without a batch that was kept
        if control_type == CONTROL_ABORT:
            self._open.discard(header.producer_id)


class SeenBatch(NamedTuple):
    header: BatchHeader
    whole: memoryview

    def open(self) -> Section:
        records = self.whole[batches.HEADER_SIZE :]
        codec = self.header.compression
        return Section(self.header, records if codec == Codec.NONE else decompress(codec, records))


def open_sections(
    data: Buffer,
    batch_headers: Iterable[FoundBatch],
    aborted: AbortedTransactions | None,
    start: int,
    end: int,
    *,
    check_crcs: bool = True,
) -> Iterator[Section]:
    """The records of every batch that `see_batches` gives."""
    for batch in see_batches(data, batch_headers, aborted, start, end, check_crcs=check_crcs):
        yield batch.open()


def see_batches(
    data: Buffer,
    batch_headers: Iterable[FoundBatch],
    aborted: AbortedTransactions | None,
    start: int,
    end: int,
    *,
    check_crcs: bool = True,
) -> Iterator[SeenBatch]:
    """Every batch that has records from `start` to before `end`; control batches are never among them.

    Without `aborted` everything is seen (read_uncommitted).
    """
    view = memoryview(data)
    for position, header in batch_headers:
        if check_crcs and not batches.is_crc_valid(data, position, header):
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is damaged: its CRC is wrong"
            )
        whole = view[position : position + header.size]
        if header.is_control:
            _follow_markers(aborted, header, whole)
            continue
        is_hidden = aborted is not None and aborted.hides(header)
        if is_hidden or header.record_count == 0 or header.last_offset < start or header.base_offset >= end:
            continue
        yield SeenBatch(header, whole)


def _follow_markers(aborted: AbortedTransactions | None, header: BatchHeader, whole: memoryview) -> None:
    if aborted is None:
        return
    for record in iterate_records(whole):
        marker = decode_end_marker(record)
        if marker is not None:
            aborted.see_marker(header, marker.control_type)
