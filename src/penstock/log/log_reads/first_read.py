"""Checks the checksums of bytes that this process has not written itself.

Appended batches were checked on their way in, and recovery checks the batches that it scans; but after a clean shutdown
a log is trusted unread, and a disk may have changed it since. So bytes that were found on disk are checked when they
are first served, once: the segment remembers how far. A reader that keeps up pays nothing.
"""

from __future__ import annotations

from penstock.log.storage.scan import CorruptLogError, parse_header
from penstock.log.storage.segment import Segment
from penstock.protocol.batch import HEADER_SIZE, is_crc_valid

_CHUNK = 1024 * 1024


def check_first_read(segment: Segment, position: int, size: int, end_offset: int) -> None:
    """CorruptLogError when a batch in the range, which begins with a batch, is damaged or has no place in a segment
    that ends at `end_offset`: offsets have no checksum, and a file may have another's name. A batch that the range cuts
    off is left for the reader who gets all of it.

    Costs a read and a CRC, 0.3 ms for 1 MiB from the page cache, of each byte once in the life of the process.
    """
    end = position + size
    if position <= segment.checked_end:
        position = segment.checked_end
    start = position
    while end - position >= HEADER_SIZE:
        checked = _check_chunk(segment, position, min(_CHUNK, end - position), end_offset)
        if checked == position:  # a batch larger than a chunk, or cut off by the end of the range
            size_of_one = min(_size_of_batch(segment, position), end - position)
            checked = _check_chunk(segment, position, size_of_one, end_offset)
            if checked == position:
                break
        position = checked
    if start <= segment.checked_end:
        segment.checked_end = max(segment.checked_end, position)


def _check_chunk(segment: Segment, position: int, size: int, end_offset: int) -> int:
    """The end of the last whole batch of the chunk."""
    file = segment.open_file()
    chunk, at = memoryview(file.read(position, size)), 0
    next_offset = segment.base_offset
    while len(chunk) - at >= HEADER_SIZE:
        header = parse_header(chunk, at, position + at, segment.size, file.path)
        if at + header.size > len(chunk):
            break
        if not is_crc_valid(chunk, at, header):
            raise CorruptLogError(file.path, position + at, "the checksum does not match")
        if not next_offset <= header.base_offset <= header.last_offset < end_offset:
            raise CorruptLogError(file.path, position + at, f"offset {header.base_offset} is out of order")
        next_offset = header.next_offset
        at += header.size
    return position + at


def _size_of_batch(segment: Segment, position: int) -> int:
    file = segment.open_file()
    return parse_header(file.read(position, HEADER_SIZE), 0, position, segment.size, file.path).size
