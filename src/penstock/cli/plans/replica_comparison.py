"""Replicas of a partition against each other, piece by piece. Pure.

Followers copy what the leader wrote, batch for batch, so replicas have the same bytes below their high watermarks.
Replicas of a compacted topic are cleaned each at its own time: there, records that two replicas have both kept are the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.core.types import Buffer
from penstock.protocol.batch import HEADER_SIZE, MAGIC, BatchHeader, read_batch_size, read_header
from penstock.protocol.errors import ApiError
from penstock.protocol.records import Record, iterate_records

# One replica that lost a segment differs at thousands of places: the first ones say it.
MOST_DIFFERENCES = 5


class UnknownFormatError(Exception):
    """A batch that Kafka wrote before its version 0.11."""


class StoredBatch(NamedTuple):
    header: BatchHeader
    data: bytes


class Piece(NamedTuple):
    """What one replica gave from an offset on. A batch that begins before it holds it."""

    high_watermark: int
    batches: tuple[StoredBatch, ...]

    def reached(self, offset: int) -> int:
        """Where the next piece of this replica begins. Without batches there is nothing up to the high watermark."""
        end = max(offset, self.batches[-1].header.next_offset if self.batches else self.high_watermark)
        return min(end, max(self.high_watermark, offset))


class Difference(NamedTuple):
    offset: int
    broker: int
    text: str


class Comparison(NamedTuple):
    next_offset: int
    batches: int  # of the first replica, all of whose copies were compared
    differences: tuple[Difference, ...]


def split_batches(data: Buffer) -> Iterator[StoredBatch]:
    """The last batch of an answer may be cut off: it is left out."""
    position, view = 0, memoryview(data)
    while len(view) - position >= HEADER_SIZE:
        size = read_batch_size(view, position)
        if position + size > len(view):
            return
        header = read_header(view, position)
        if header.magic != MAGIC:
            raise UnknownFormatError(f"the batch at offset {header.base_offset} has the old format {header.magic}")
        yield StoredBatch(header, bytes(view[position : position + size]))
        position += size


def compare(pieces: Mapping[int, Piece], offset: int, *, is_compacted: bool) -> Comparison:
    """The pieces of all replicas from one offset on, by broker, the leader's first."""
    end = min(piece.reached(offset) for piece in pieces.values())
    contents = {
        broker: [batch for batch in piece.batches if batch.header.base_offset < end] for broker, piece in pieces.items()
    }
    first, *others = contents
    find = _compare_records if is_compacted else _compare_batches
    differences = [
        difference for broker in others for difference in find(contents[first], contents[broker], first, broker)
    ]
    differences.sort()
    return Comparison(end, len(contents[first]), tuple(differences))


def _compare_batches(
    ones: list[StoredBatch], others: list[StoredBatch], first: int, broker: int
) -> Iterator[Difference]:
    one_by_offset = {batch.header.base_offset: batch for batch in ones}
    other_by_offset = {batch.header.base_offset: batch for batch in others}
    for offset in sorted(one_by_offset.keys() | other_by_offset.keys()):
        one, other = one_by_offset.get(offset), other_by_offset.get(offset)
        if one is None or other is None:
            holder, lacking = (broker, first) if one is None else (first, broker)
            yield Difference(offset, broker, f"broker {holder} has a batch here, broker {lacking} has none")
        elif one.data != other.data:
            yield Difference(offset, broker, _describe(one, other, first, broker))


def _describe(one: StoredBatch, other: StoredBatch, first: int, broker: int) -> str:
    facts = (
        ("leader epochs", one.header.leader_epoch, other.header.leader_epoch),
        ("sizes", len(one.data), len(other.data)),
        ("checksums", f"{one.header.crc:08x}", f"{other.header.crc:08x}"),
    )
    for name, of_one, of_other in facts:
        if of_one != of_other:
            return f"the batches of brokers {first} and {broker} have the {name} {of_one} and {of_other}"
    return f"the batches of brokers {first} and {broker} have the same checksum and different bytes"


def _compare_records(
    ones: list[StoredBatch], others: list[StoredBatch], first: int, broker: int
) -> Iterator[Difference]:
    try:
        kept, other_kept = _records(ones), _records(others)
    except ApiError as error:
        offset = min(batch.header.base_offset for batch in (*ones, *others))
        yield Difference(offset, broker, f"records of broker {first} or {broker} cannot be read: {error.message}")
        return
    for offset in sorted(kept.keys() & other_kept.keys()):
        if kept[offset] != other_kept[offset]:
            yield Difference(offset, broker, f"brokers {first} and {broker} have different records")


def _records(batches: list[StoredBatch]) -> dict[int, Record]:
    return {record.offset: record for batch in batches for record in iterate_records(batch.data)}
