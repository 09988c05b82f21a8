"""The trail in a file: one event per line. Each event reaches the disk before the sink takes the next; a full file
gives way to a new file.

A full file `audit.jsonl` becomes `audit.jsonl.00000000000000000042`, after the number of its last event, so the names
sort as the events do. Only the owner of the process can read the files. All functions here wait for the disk: call them
in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.security.audit.cloud_events import NO_CHAIN, Kept, Numbered, decode, encode

_SEQUENCE_DIGITS = 20
# A line has some 500 bytes and at most some 100 KB: this size includes the end of the last line but one.
_TAIL_BYTES = 1 << 20


class FileSink:
    name = "file"

    def __init__(self, path: Path, source: str, max_bytes: int, kept_files: int) -> None:
        """`kept_files` below 0 keeps all files."""
        self._path = path
        self._source = source
        self._max_bytes = max_bytes
        self._kept_files = kept_files
        self._fd = -1
        self._size = 0
        self._is_torn = False  # the file may have part of a failed batch behind `_size`
        self._last_number = 0
        self._chain = NO_CHAIN

    def open(self) -> int:
        """The number of the last event in the file, or 0. Cuts off an unfinished last line of a killed broker."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        last = _last_event(self._path)
        if last is None:
            rotated = rotated_files(self._path)
            last = _last_event(rotated[-1]) if rotated else None
        self._open()
        if last is None:
            return 0
        self._chain = last.chain
        self._last_number = last.number
        return last.number

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size
        whole = _whole_lines(self._fd, self._size)
        if whole < self._size:
            os.ftruncate(self._fd, whole)
            self._size = whole
        self._is_torn = False

    async def write(self, events: Sequence[Numbered]) -> None:
        await asyncio.to_thread(self.append, events)

    def append(self, events: Sequence[Numbered]) -> None:
        """Writes all events to disk, or raises OSError and writes none: the sink cuts a partial write off again, before
        the next attempt at the latest. The sink closes a full file before the next batch, since a failure after the
        write of a batch would write the batch again.
        """
        if self._fd < 0:
            self._open()
        if self._is_torn:
            os.ftruncate(self._fd, self._size)
            self._is_torn = False
        if self._size >= self._max_bytes:
            self._rotate()
        lines = []
        chain = self._chain
        for numbered in events:
            line, chain = encode(numbered, self._source, chain)
            lines.append(line)
        data = b"\n".join(lines) + b"\n"
        try:
            _write_all(self._fd, data)
            os.fsync(self._fd)
        except OSError:
            self._is_torn = True
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
                self._is_torn = False
            raise
        self._chain = chain
        self._size += len(data)
        self._last_number = events[-1].number

    def _rotate(self) -> None:
        os.rename(self._path, f"{self._path}.{self._last_number:0{_SEQUENCE_DIGITS}d}")
        self.close()
        self._open()
        if self._kept_files >= 0:
            files = rotated_files(self._path)
            for old in files[: max(len(files) - self._kept_files, 0)]:
                old.unlink(missing_ok=True)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def rotated_files(path: Path) -> list[Path]:
    """The closed files of a trail, the oldest first."""
    prefix = f"{path.name}."
    if not path.parent.is_dir():
        return []
    found = [each for each in path.parent.iterdir() if each.name.startswith(prefix)]
    return sorted(each for each in found if each.name.removeprefix(prefix).isdigit())


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _whole_lines(fd: int, size: int) -> int:
    """The size of the whole lines of the file in bytes."""
    start = max(size - _TAIL_BYTES, 0)
    tail = os.pread(fd, size - start, start)
    return start + tail.rfind(b"\n") + 1


def _last_event(path: Path) -> Kept | None:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL_BYTES, 0))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            return decode(line)
    return None
