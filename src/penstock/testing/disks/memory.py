"""A disk in memory that knows what a power failure would leave of it.

`MemoryFiles` has the interface of `penstock.log.storage.files` and POSIX's promises, no better: content is durable
after an fsync of the file, a name after an fsync of its directory. `after_power_cut` is the disk after a power failure:
unsynced content is there, or not, or in part, as chance decides. `after_kill` is the disk that the next process finds
when only this one ended. Both are copies, so a holder of the old disk can do no harm to the new one.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from penstock.core.types import Buffer
from penstock.log.storage.files import DiskSpace, Files, OpenFile, StrPath

_DISK_SIZE = 1 << 30


@dataclass(slots=True, eq=False)
class _File:
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    untouched: int = 0  # so many bytes at the beginning were not written to since they became durable
    modified_ms: int = 0
    is_locked: bool = False

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.untouched = len(self.durable)


class _Change(NamedTuple):
    """The effect of one operation on a directory: names and what they mean from now on. A rename is one change."""

    bindings: tuple[tuple[str, _File | _Directory | None], ...]


@dataclass(slots=True, eq=False)
class _Directory:
    entries: dict[str, _File | _Directory] = field(default_factory=dict)
    durable: dict[str, _File | _Directory] = field(default_factory=dict)
    unsynced: list[_Change] = field(default_factory=list)
    is_locked: bool = False

    def bind(self, *bindings: tuple[str, _File | _Directory | None]) -> None:
        _apply(self.entries, bindings)
        self.unsynced.append(_Change(bindings))

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.unsynced.clear()


_Node = _File | _Directory
# Called before every operation with its name and path; raises OSError to make it fail.
Check = Callable[[str, str], None]


class DiskFault(OSError):  # noqa: N818
    """A write that raises this has stored so many bytes all the same."""

    def __init__(self, code: int, text: str, path: str, stored: int = 0) -> None:
        super().__init__(code, text, path)
        self.stored = stored


class _Tree:
    """The directories and files by name. A path that leads nowhere is a FileNotFoundError."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.root = _Directory()
        self._now_ms = now_ms

    def find(self, path: StrPath) -> _Node | None:
        node: _Node | None = self.root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            node = node.entries.get(name)
        return node

    def directory(self, path: StrPath) -> _Directory:
        node = self.find(path)
        if not isinstance(node, _Directory):
            raise _missing(path)
        return node

    def parent(self, path: StrPath) -> tuple[_Directory, str]:
        parent, _, name = str(path).rpartition("/")
        return self.directory(parent), name

    def file(self, path: StrPath, create: bool = False) -> _File:
        directory, name = self.parent(path)
        node = directory.entries.get(name)
        if node is None and create:
            node = _File(modified_ms=self._now_ms())
            directory.bind((name, node))
        if not isinstance(node, _File):
            raise _missing(path)
        return node


class MemoryFiles(Files):
    """`now_ms` is the time of writes; `check` may refuse an operation, as a failing disk does."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0, check: Check | None = None) -> None:
        self._tree = _Tree(now_ms)
        self._now_ms = now_ms
        self.check = check
        self.operations = 0

    # ---- the operations of the log

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        self.note("create" if create else "open", path)
        return MemoryFile(self._tree.file(path, create), str(path), self)

    def read_file(self, path: StrPath) -> bytes:
        self.note("read_file", path)
        return bytes(self._tree.file(path).data)

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        self.note("write_file", path)
        file = self._tree.file(path, create=True)
        file.data[:] = data
        file.untouched = 0
        file.modified_ms = self._now_ms()
        if sync:
            self.note("sync", path)
            file.sync()

    def rename(self, source: StrPath, target: StrPath) -> None:
        self.note("rename", target)
        directory, name = self._tree.parent(source)
        other, new_name = self._tree.parent(target)
        node = directory.entries.get(name)
        if node is None:
            raise _missing(source)
        replaced = other.entries.get(new_name)
        if isinstance(replaced, _Directory) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(target))
        if other is not directory:
            raise OSError(errno.EXDEV, "names move within one directory only", str(target))
        directory.bind((name, None), (new_name, node))

    def unlink(self, path: StrPath) -> None:
        self.note("unlink", path)
        directory, name = self._tree.parent(path)
        if name in directory.entries:
            directory.bind((name, None))

    def list_names(self, path: StrPath) -> list[str]:
        self.note("list", path)
        return list(self._tree.directory(path).entries)

    def list_directories(self, path: StrPath) -> list[str]:
        self.note("list", path)
        entries = self._tree.directory(path).entries
        return sorted(name for name, node in entries.items() if isinstance(node, _Directory))

    def make_directory(self, path: StrPath) -> None:
        self.note("make_directory", path)
        directory, name = self._tree.parent(path)
        if name in directory.entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        directory.bind((name, _Directory()))

    def make_directories(self, path: StrPath) -> None:
        self.note("make_directory", path)
        directory = self._tree.root
        for name in _names(path):
            if name not in directory.entries:
                directory.bind((name, _Directory()))
            below = directory.entries[name]
            assert isinstance(below, _Directory)
            directory = below

    def remove_tree(self, path: StrPath) -> None:
        self.note("remove_tree", path)
        directory, name = self._tree.parent(path)
        if name in directory.entries:
            directory.bind((name, None))

    def exists(self, path: StrPath) -> bool:
        return self._tree.find(path) is not None

    def size(self, path: StrPath) -> int:
        self.note("size", path)
        return len(self._tree.file(path).data)

    def space(self, path: StrPath) -> DiskSpace:
        return DiskSpace(_DISK_SIZE, _DISK_SIZE)

    def modified_ms(self, path: StrPath) -> int:
        return self._tree.file(path).modified_ms

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        self._tree.file(path).modified_ms = modified_ms

    def sync_file(self, path: StrPath) -> None:
        self.note("sync", path)
        self._tree.file(path).sync()

    def sync_directory(self, path: StrPath) -> None:
        self.note("sync", path)
        self._tree.directory(path).sync()

    def lock(self, path: StrPath) -> OpenFile:
        self.note("lock", path)
        file = self._tree.file(path, create=True)
        if file.is_locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        file.is_locked = True
        return MemoryFile(file, str(path), self, holds_lock=True)

    def lock_directory(self, path: StrPath) -> OpenFile:
        self.note("lock", path)
        directory = self._tree.directory(path)
        if directory.is_locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        directory.is_locked = True
        return _LockedDirectory(directory, str(path))

    # ---- the end

    def after_kill(self) -> MemoryFiles:
        """The disk after a kill: every write is there, as the kernel has it, and unsynced writes stay unsynced."""
        copies: dict[_Node, _Node] = {}

        def copy(node: _Node) -> _Node:
            if node not in copies:
                if isinstance(node, _File):
                    copies[node] = _File(bytearray(node.data), node.durable, node.untouched, node.modified_ms)
                else:
                    copies[node] = made = _Directory()
                    made.entries = {name: copy(entry) for name, entry in node.entries.items()}
                    made.durable = {name: copy(entry) for name, entry in node.durable.items()}
                    made.unsynced = [
                        _Change(
                            tuple((name, None if entry is None else copy(entry)) for name, entry in change.bindings)
                        )
                        for change in node.unsynced
                    ]
            return copies[node]

        return self._successor(copy(self._tree.root))

    def after_power_cut(self, chance: random.Random) -> MemoryFiles:
        """A directory's changes of names are there up to one of them, in order, as a journal keeps them. What is there
        is on the disk, and so durable.
        """
        copies: dict[_Node, _Node] = {}

        def copy(node: _Node) -> _Node:
            if node not in copies:
                if isinstance(node, _File):
                    content = _survivor(node, chance)
                    copies[node] = _File(bytearray(content), content, len(content), node.modified_ms)
                else:
                    copies[node] = made = _Directory()
                    made.entries = {name: copy(entry) for name, entry in _surviving_names(node, chance).items()}
                    made.sync()
            return copies[node]

        return self._successor(copy(self._tree.root))

    def _successor(self, root: _Node) -> MemoryFiles:
        assert isinstance(root, _Directory)
        made = MemoryFiles(self._now_ms)
        made._tree.root = root
        return made

    # ---- the way of every operation

    def note(self, name: str, path: StrPath) -> None:
        self.operations += 1
        if self.check is not None:
            self.check(name, str(path))

    def note_write(self, path: str) -> int:
        """Counts a write. Returns when it was made, for the file's modification time."""
        self.note("write", path)
        return self._now_ms()


class MemoryFile(OpenFile):
    """Lives on when its name is gone, as an open descriptor does."""

    __slots__ = ("_file", "_files", "_holds_lock")

    def __init__(self, file: _File, path: str, files: MemoryFiles, *, holds_lock: bool = False) -> None:
        super().__init__(-1, path)
        self._file = file
        self._files = files
        self._holds_lock = holds_lock

    def write(self, buffers: Sequence[Buffer], position: int, size: int) -> None:
        content = b"".join(buffers)
        try:
            modified_ms = self._files.note_write(self.path)
        except DiskFault as fault:
            self._put(content[: fault.stored], position)
            raise
        self._file.modified_ms = modified_ms
        self._put(content, position)

    def _put(self, content: bytes, position: int) -> None:
        data = self._file.data
        self._file.untouched = min(self._file.untouched, position)
        if position > len(data):
            data.extend(bytes(position - len(data)))
        data[position : position + len(content)] = content

    def read(self, position: int, size: int) -> bytes:
        self._files.note("read", self.path)
        return bytes(self._file.data[position : position + size])

    def send(self, socket_fd: int, position: int, size: int) -> int:
        raise OSError(errno.EINVAL, "a file in memory cannot be sent to a socket", self.path)

    def size(self) -> int:
        return len(self._file.data)

    def truncate(self, size: int) -> None:
        self._files.note("truncate", self.path)
        data = self._file.data
        self._file.untouched = min(self._file.untouched, size)
        del data[size:]
        data.extend(bytes(size - len(data)))

    def sync(self) -> None:
        self._files.note("sync", self.path)
        self._file.sync()

    def start_write_back(self, position: int, size: int) -> None:
        self._files.note("write_back", self.path)

    def is_shared(self) -> bool | None:
        return None  # the disk does not track other holders of the file

    def close(self) -> None:
        if self._holds_lock:
            self._holds_lock = self._file.is_locked = False

    def __del__(self) -> None:
        return  # nothing to give back; a lock ends with `close`, or with the disk's successor


class _LockedDirectory(OpenFile):
    __slots__ = ("_directory",)

    def __init__(self, directory: _Directory, path: str) -> None:
        super().__init__(-1, path)
        self._directory: _Directory | None = directory

    def close(self) -> None:
        if self._directory is not None:
            self._directory.is_locked = False
            self._directory = None

    def __del__(self) -> None:
        return  # as for a file


def _survivor(file: _File, chance: random.Random) -> bytes:
    """A possible fate of the bytes appended since the last sync: nothing, a part, all of them, or zeros in their place.
    Where the file was written over or cut, the old content or the beginning of the new; the bytes before that are safe.
    """
    durable, data = file.durable, bytes(file.data)
    if data == durable:
        return data
    if file.untouched < len(durable):
        return chance.choice((durable, data, data[: chance.randint(file.untouched, len(data))]))
    rest = data[len(durable) :]
    kept = chance.choice((0, len(rest), chance.randint(0, len(rest))))
    zeros = chance.choice((0, 0, len(rest) - kept))
    return durable + rest[:kept] + bytes(zeros)


def _surviving_names(directory: _Directory, chance: random.Random) -> dict[str, _Node]:
    entries = dict(directory.durable)
    kept = chance.choice((0, len(directory.unsynced), chance.randint(0, len(directory.unsynced))))
    for change in directory.unsynced[:kept]:
        _apply(entries, change.bindings)
    return entries


def _apply(entries: dict[str, _Node], bindings: Sequence[tuple[str, _Node | None]]) -> None:
    for name, node in bindings:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


@lru_cache(maxsize=4096)
def _names(path: StrPath) -> tuple[str, ...]:
    return tuple(name for name in str(path).split("/") if name)


def _missing(path: StrPath) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
