"""Steps through a log file batch by batch.

`scan_headers` reads headers alone, for searches; `scan_batches` verifies every checksum, for recovery;
`scan_needed_batches` verifies those of the needed batches, for compaction. All raise CorruptLogError where no batch can
stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.log.storage.files import OpenFile
from penstock.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, is_crc_valid, read_header

_HEADER_CHUNK = 16 * 1024  # a few index intervals: one read covers the usual search
_DATA_CHUNK = 1024 * 1024
_SKIPPING_CHUNK = 4096  # the headers of many small batches, or the header of a large one


class CorruptLogError(Exception):
    """The bytes at `position` are no batch, or a damaged one."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} is damaged at position {position}: {why}")
        self.path = path
        self.position = position
        self.why = why


def scan_headers(file: OpenFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from `position` on. CorruptLogError when batches do not fill the range
    exactly.
    """
    chunk, chunk_start = b"", position
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_start, at = file.read(position, min(_HEADER_CHUNK, end - position)), position, 0
        header = parse_header(chunk, at, position, end, file.path)
        yield position, header
        position += header.batch_length + LOG_OVERHEAD


def scan_batches(file: OpenFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, batch) with every checksum verified: for recovery."""
    for at, header, batch in scan_needed_batches(file, position, end, _DATA_CHUNK, lambda _: True):
        assert batch is not None
        yield at, header, batch


def scan_needed_batches(
    file: OpenFile, position: int, end: int, chunk_size: int, is_needed: Callable[[BatchHeader], bool]
) -> Iterator[tuple[int, BatchHeader, memoryview | None]]:
    """As `scan_batches`, but None stands for a batch that is not needed: most of it is not read, and its checksum is
    not verified. A header is read whole however small the chunk is.
    """
    chunk_size = max(chunk_size, _SKIPPING_CHUNK)
    chunk, chunk_start, ahead = memoryview(b""), position, chunk_size
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_start, at = memoryview(file.read(position, min(ahead, end - position))), position, 0
        header = parse_header(chunk, at, position, end, file.path)
        if not is_needed(header):
            yield position, header, None
            ahead = _SKIPPING_CHUNK
        else:
            if at + header.size > len(chunk):
                size = max(header.size, min(chunk_size, end - position))
                chunk, chunk_start, at = memoryview(file.read(position, size)), position, 0
            if not is_crc_valid(chunk, at, header):
                raise CorruptLogError(file.path, position, "the checksum does not match")
            yield position, header, chunk[at : at + header.size]
            ahead = chunk_size
        position += header.size


def read_batch(file: OpenFile, position: int, header: BatchHeader) -> bytes:
    """The whole batch at `position`, checked: the caller is about to open it."""
    data = file.read(position, header.size)
    if len(data) != header.size or not is_crc_valid(data, 0, header):
        raise CorruptLogError(file.path, position, "the checksum does not match")
    return data


def parse_header(data: bytes | memoryview, at: int, position: int, end: int, path: str) -> BatchHeader:
    """The header at `data[at:]`, which stands at `position` of a file of `end` bytes. CorruptLogError when no header
    can look like that.
    """
    if at + HEADER_SIZE > len(data):
        raise CorruptLogError(path, position, f"{max(end - position, 0)} bytes are too few for a batch")
    header = read_header(data, at)
    if header.magic != MAGIC:
        raise CorruptLogError(path, position, f"magic is {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or position + header.batch_length + LOG_OVERHEAD > end:
        raise CorruptLogError(path, position, f"batch length {header.batch_length} does not fit the file")
    if header.base_offset < 0 or header.last_offset_delta < 0:
        raise CorruptLogError(path, position, "the offsets are negative")
    return header
