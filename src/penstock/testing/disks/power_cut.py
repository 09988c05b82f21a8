"""A disk that knows what would survive a power failure.

`PowerCutFiles` is the real disk with a memory of every fsync. At any moment `write_survivors` makes a copy of a
directory as it would be after a power failure, by the letter of POSIX and no better: a file has the content of its last
sync, and is found under its name only if its directory was synced since. Later writes may be there, or not, or be
zeros: `tail` decides.
"""

from __future__ import annotations

import enum
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

from penstock.core.types import Buffer
from penstock.log.storage.files import Files, OpenFile, StrPath


class Tail(enum.Enum):
    """The fate of bytes behind the last sync. File systems do all three."""

    LOST = "lost"
    TORN = "torn"  # some of it made it
    ZEROED = "zeroed"  # the file's new size made it, its content did not


class PowerCutFiles(Files):
    def __init__(self) -> None:
        self._lock = threading.RLock()  # fsync runs in other threads
        self._contents: dict[int, bytes] = {}  # file -> what its last sync made durable
        self._entries: dict[int, dict[str, int]] = {}  # directory -> names that its last sync made durable
        self._held: dict[int, int] = {}  # file -> a descriptor that keeps its number from being used again
        self.sync_count = 0

    # ---- the operations of the log

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = PowerCutFile(os.open(path, flags, 0o644), str(path), self)
        self._hold(str(path))
        return file

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        with self._lock:
            super().write_file(path, data, sync=False)
            if sync:
                self.sync_file(path)

    def sync_file(self, path: StrPath) -> None:
        with open(path, "rb") as file:
            self.note_synced(file.fileno())

    def sync_directory(self, path: StrPath) -> None:
        with self._lock:
            self.sync_count += 1
            directory = self._hold(str(path))
            self._entries[directory] = {name: self._hold(f"{path}/{name}") for name in os.listdir(path)}

    def note_synced(self, fd: int) -> None:
        with self._lock:
            self.sync_count += 1
            status = os.fstat(fd)
            self._contents[status.st_ino] = os.pread(fd, status.st_size, 0)

    def _hold(self, path: str) -> int:
        with self._lock:
            number = os.stat(path).st_ino
            if number not in self._held:
                self._held[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return number

    # ---- the power fails

    def write_survivors(self, source: Path, target: Path, tail: Tail, chance: random.Random) -> None:
        """Copies what a power failure would leave of `source`, which itself goes on unharmed."""
        with self._lock:
            target.mkdir(parents=True)
            self._write_directory(os.stat(source).st_ino, target, tail, chance)

    def _write_directory(self, directory: int, target: Path, tail: Tail, chance: random.Random) -> None:
        for name, number in self._entries.get(directory, {}).items():
            path = target / name
            if os.path.isdir(f"/proc/self/fd/{self._held[number]}"):
                path.mkdir()
                self._write_directory(number, path, tail, chance)
            else:
                path.write_bytes(self._survivor(number, tail, chance))

    def _survivor(self, number: int, tail: Tail, chance: random.Random) -> bytes:
        durable = self._contents.get(number, b"")
        fd = self._held[number]
        written = os.pread(fd, os.fstat(fd).st_size, 0)
        rest = written[len(durable) :] if written.startswith(durable) else b""
        if tail is Tail.TORN:
            return durable + rest[: chance.randint(0, len(rest))]
        if tail is Tail.ZEROED:
            return durable + bytes(len(rest))
        return durable

    def close(self) -> None:
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()


class PowerCutFile(OpenFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, path: str, files: PowerCutFiles) -> None:
        super().__init__(fd, path)
        self._files = files

    def write(self, buffers: Sequence[Buffer], position: int, size: int) -> None:
        with self._files._lock:
            super().write(buffers, position, size)

    def sync(self) -> None:
        self._files.note_synced(self.fileno())
