"""What the tests of compaction share: a compacted partition, and what a reader finds in it."""

from __future__ import annotations

import os
from dataclasses import replace

from penstock.core.log_settings import LogSettings
from penstock.core.types import Buffer
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import OpenFile, StrPath
from penstock.protocol.batch import BatchHeader, is_crc_valid, iterate_batches
from penstock.protocol.records import Record, build_batch, iterate_records
from penstock.testing.disks.faulty_files import FaultyFile, FaultyFiles
from tests.unit.log.support import NOW, append, contents

COMPACTED = LogSettings(
    segment_bytes=1000, index_interval_bytes=100, cleanup_policy=frozenset({"compact"}), delete_retention_ms=1_000
)
Found = tuple[int, str, str | None]  # offset, key, value


def with_settings(**changes: object) -> LogSettings:
    return replace(COMPACTED, **changes)  # type: ignore[arg-type]


def keyed(*pairs: tuple[str, str | None], timestamp: int = NOW, **fields: int | bool) -> bytes:
    records = [
        Record(key.encode(), None if value is None else value.encode(), (), timestamp + index)
        for index, (key, value) in enumerate(pairs)
    ]
    return build_batch(records, **fields)  # type: ignore[arg-type]


def fill(log: PartitionLog, count: int, keys: int = 5, start: int = 0) -> None:
    """`count` batches of two records each, over and over the same keys; a segment of 1,000 bytes takes about ten."""
    for number in range(start, start + count):
        pairs = [(f"k{(2 * number + index) % keys}", f"v{2 * number + index}") for index in range(2)]
        append(log, keyed(*pairs))


def roll(log: PartitionLog) -> None:
    """A batch of its own in a new segment, so that everything before it may be compacted."""
    append(log, keyed(("filler", "x" * (log.settings.segment_bytes - 100))))
    append(log, keyed(("filler", "x" * (log.settings.segment_bytes - 100))))


def batches(log: PartitionLog, start: int | None = None) -> list[tuple[BatchHeader, bytes]]:
    """Every batch as a reader gets it, checked."""
    found = []
    offset = log.log_start_offset if start is None else start
    while (slice_ := log.reader.read(offset, 10_000, log.log_end_offset, at_least_one=True)) is not None:
        data = contents(slice_)
        for position, header in iterate_batches(data):
            assert is_crc_valid(data, position, header)
            assert header.last_offset >= offset
            found.append((header, data[position : position + header.size]))
            offset = header.next_offset
    return found


def read_keyed(log: PartitionLog, start: int | None = None) -> list[Found]:
    first = log.log_start_offset if start is None else start
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for header, data in batches(log, start)
        if not header.is_control
        for record in iterate_records(data)
        if record.offset >= first
    ]


def latest(found: list[Found]) -> dict[str, str]:
    """The table that the records amount to."""
    table: dict[str, str] = {}
    for _, key, value in found:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


class UnsyncedFiles(FaultyFiles):
    """fsync is an operation that may fail, and nothing else: a killed process loses nothing of what it wrote."""

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        self.check("create" if create else "open", path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _UnsyncedFile(os.open(path, flags, 0o644), str(path), self)

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        super().write_file(path, data)

    def sync_directory(self, path: StrPath) -> None:
        self.check("sync", path)


class _UnsyncedFile(FaultyFile):
    __slots__ = ()

    def sync(self) -> None:
        self._files.check("sync", self.path)
