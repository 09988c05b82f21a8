"""A disk that fails on demand.

`FaultyFiles` is the real disk with a list of `Fault`s in front of it. It counts and names every operation; a fault
decides which ones fail and how. Tests use it to try a full disk at each single operation of a sequence.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.types import Buffer
from penstock.log.storage.files import Files, OpenFile, StrPath


@dataclass(frozen=True, slots=True)
class DiskOperation:
    """One operation of the code under test on the disk."""

    number: int  # counted from 1
    name: str  # the method: "write", "read", "open", ...
    path: str
    thread_id: int  # the caller's: the event loop's thread must not call an operation that may block


@dataclass(frozen=True, slots=True)
class Fault:
    """Fails every operation that `matches`; a write stores `partial_bytes` first, as a disk that fills up does."""

    matches: Callable[[DiskOperation], bool]
    error: int = errno.EIO
    partial_bytes: int = 0

    @classmethod
    def at(cls, number: int, error: int = errno.ENOSPC, partial_bytes: int = 0) -> Fault:
        """Fails from the operation with this number on, as a full disk stays full."""
        return cls(lambda operation: operation.number >= number, error, partial_bytes)

    @classmethod
    def on(cls, name: str, path_contains: str = "", error: int = errno.EIO, partial_bytes: int = 0) -> Fault:
        return cls(lambda operation: operation.name == name and path_contains in operation.path, error, partial_bytes)


class FaultyFiles(Files):
    """With `is_synced` False an fsync can fail but does nothing else: a test without a power cut sees no difference."""

    def __init__(self, *faults: Fault, is_synced: bool = True) -> None:
        self.is_synced = is_synced
        self.faults: list[Fault] = list(faults)
        self.operations: list[DiskOperation] = []

    def fail(self, fault: Fault) -> None:
        self.faults.append(fault)

    def heal(self) -> None:
        self.faults.clear()

    def note(self, name: str, path: StrPath) -> Fault | None:
        operation = DiskOperation(len(self.operations) + 1, name, str(path), threading.get_ident())
        self.operations.append(operation)
        for fault in self.faults:
            if fault.matches(operation):
                return fault
        return None

    def check(self, name: str, path: StrPath) -> None:
        fault = self.note(name, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), str(path))

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        self.check("create" if create else "open", path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return FaultyFile(os.open(path, flags, 0o644), str(path), self)

    def read_file(self, path: StrPath) -> bytes:
        self.check("read_file", path)
        return super().read_file(path)

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        fault = self.note("write_file", path)
        if fault is not None:
            super().write_file(path, memoryview(data)[: fault.partial_bytes])
            raise OSError(fault.error, os.strerror(fault.error), str(path))
        super().write_file(path, data, sync=sync and self.is_synced)

    def rename(self, source: StrPath, target: StrPath) -> None:
        self.check("rename", target)
        super().rename(source, target)

    def unlink(self, path: StrPath) -> None:
        self.check("unlink", path)
        super().unlink(path)

    def list_names(self, path: StrPath) -> list[str]:
        self.check("list", path)
        return super().list_names(path)

    def list_directories(self, path: StrPath) -> list[str]:
        self.check("list", path)
        return super().list_directories(path)

    def make_directory(self, path: StrPath) -> None:
        self.check("make_directory", path)
        super().make_directory(path)

    def make_directories(self, path: StrPath) -> None:
        self.check("make_directory", path)
        super().make_directories(path)

    def remove_tree(self, path: StrPath) -> None:
        self.check("remove_tree", path)
        super().remove_tree(path)

    def size(self, path: StrPath) -> int:
        self.check("size", path)
        return super().size(path)

    def modified_ms(self, path: StrPath) -> int:
        self.check("modified", path)
        return super().modified_ms(path)

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        self.check("modified", path)
        super().set_modified_ms(path, modified_ms)

    def sync_file(self, path: StrPath) -> None:
        self.check("sync", path)
        if self.is_synced:
            super().sync_file(path)
        else:
            os.stat(path)  # an absent file cannot be synced on any disk

    def sync_directory(self, path: StrPath) -> None:
        self.check("sync", path)
        if self.is_synced:
            super().sync_directory(path)
        else:
            os.stat(path)

    def lock(self, path: StrPath) -> OpenFile:
        self.check("lock", path)
        return super().lock(Path(path))

    def lock_directory(self, path: StrPath) -> OpenFile:
        self.check("lock", path)
        return super().lock_directory(path)


class FaultyFile(OpenFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, path: str, files: FaultyFiles) -> None:
        super().__init__(fd, path)
        self._files = files

    def write(self, buffers: Sequence[Buffer], position: int, size: int) -> None:
        fault = self._files.note("write", self.path)
        if fault is not None:
            os.pwrite(self.fileno(), b"".join(buffers)[: fault.partial_bytes], position)
            raise OSError(fault.error, os.strerror(fault.error), self.path)
        super().write(buffers, position, size)

    def read(self, position: int, size: int) -> bytes:
        self._files.check("read", self.path)
        return super().read(position, size)

    def send(self, socket_fd: int, position: int, size: int) -> int:
        self._files.check("send", self.path)
        return super().send(socket_fd, position, size)

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._files.check("sync", self.path)
        if self._files.is_synced:
            super().sync()

    def start_write_back(self, position: int, size: int) -> None:
        self._files.check("write_back", self.path)
        super().start_write_back(position, size)
