"""The disk. No other module calls the operating system for it.

Everything above takes a `Files` and so can be tested against failing disks (`penstock.testing.disks.faulty_files`).
Reads use pread and never mmap: when a mapped file is cut short or its disk fails, the kernel sends SIGBUS, which ends
the process and every healthy partition with it; pread returns an error that takes one partition offline.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.core.types import Buffer

StrPath = str | Path

# The errors of a full disk. Nothing goes offline where the same work can be tried again later: checkpoints, index
# entries, new partitions. A failed append or fsync takes its partition offline until the next start.
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
# The process or the machine lacks descriptors, or memory, for the moment. This shows nothing about the disk: nothing
# goes offline, and the same work is tried again later.
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
PASSING = (*NO_DESCRIPTOR, errno.ENOMEM)
# The errors for which no data directory goes offline.
NOT_BROKEN = (*FULL_DISK, *PASSING)


_SYNC_FILE_RANGE_WRITE = 2
# The first read of a whole file: most files are much smaller.
_READ_SIZE = 16_384


@functools.cache
def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux has the call, and Python has no name for it. An embedded broker that takes few bytes does not import
    ctypes.
    """
    import ctypes

    try:
        function = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    function.restype = ctypes.c_int
    found: Callable[[int, int, int, int], int] = function
    return found


class OpenFile:
    """An open file. It closes when the last reference is dropped, so its readers can finish."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def fileno(self) -> int:
        return self._fd

    def write(self, buffers: Sequence[Buffer], position: int, size: int) -> None:
        """Writes all `size` bytes of `buffers` at `position`, or raises OSError with some of them written.

        Costs one system call: 1 us for a small batch, 50 us for 1 MiB. Tried: joining the buffers first (the same for a
        small batch, half as much again at 4 KiB, 2.5 times at 1 MiB). Shown by the produce rows of `make bench`.
        """
        written = os.pwritev(self._fd, buffers, position)
        if written != size:
            self._write_rest(b"".join(buffers), written, position)

    def _write_rest(self, data: bytes, written: int, position: int) -> None:
        """A full disk first shows itself as a short write; the next write raises the reason."""
        view = memoryview(data)
        while written < len(view):
            count = os.pwrite(self._fd, view[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, f"the disk took no byte of {len(view) - written}", self.path)
            written += count

    def send(self, socket_fd: int, position: int, size: int) -> int:
        """Up to `size` bytes to a socket, without passing through Python; 0 at the end of the file."""
        return os.sendfile(socket_fd, self._fd, position, size)

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes: fewer only at the end of the file."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        chunks = [data]
        while data and (size := size - len(data)):
            position += len(data)
            data = os.pread(self._fd, size, position)
            chunks.append(data)
        return b"".join(chunks)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def start_write_back(self, position: int, size: int) -> None:
        """Asks the kernel to begin writing a range to the disk, and waits for nothing but room in the disk's queue.

        Nothing is durable afterwards, and only the next fsync reports an error. On a system without such a call, the
        kernel begins at its own time.
        """
        sync_file_range = _find_sync_file_range()
        if sync_file_range is not None:
            sync_file_range(self._fd, position, size, _SYNC_FILE_RANGE_WRITE)

    def is_shared(self) -> bool | None:
        """Whether another descriptor is open on the file, here or in another process; None when the system cannot tell.

        Linux gives a write lease only to the sole user of a file. It is given back at once.
        """
        if not hasattr(fcntl, "F_SETLEASE"):
            return None
        try:
            fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return True if error.errno == errno.EAGAIN else None
        return False

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()


class FileSlice:
    """A range of a file: a chunk of a response that is sent without being read into Python."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def send(self, socket_fd: int, start: int) -> int:
        """Sends as much of the slice from `start` on as the socket takes now; BlockingIOError when it takes nothing.

        Costs a quarter of a read and a write (0.05 s of CPU per GB on loopback instead of 0.2). Bench: consume 1 KiB.
        """
        sent = self.file.send(socket_fd, self.position + start, self.size - start)
        if sent == 0:
            raise ValueError(f"{self.file.path} ends before its slice does")
        return sent

    def read(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` of the slice. OSError from the disk, ValueError when the bytes are not there."""
        if start < 0 or size < 0 or start + size > self.size:
            raise ValueError(f"{size} bytes at {start} lie outside a slice of {self.size}")
        data = self.file.read(self.position + start, size)
        if len(data) != size:
            raise ValueError(f"{self.file.path} ends {size - len(data)} bytes before its slice does")
        return data


class DiskSpace(NamedTuple):
    total_bytes: int
    usable_bytes: int


class Files:
    """Paths on the real disk."""

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(os.open(path, flags, 0o644), str(path))

    def read_file(self, path: StrPath) -> bytes:
        """Costs half of Python's `open` and `read`. A start reads five files for each partition."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(fd, _READ_SIZE)
            chunks = [data]
            while data:
                data = os.read(fd, _READ_SIZE)
                chunks.append(data)
            return b"".join(chunks)
        finally:
            os.close(fd)

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        """Replaces the content in place: for files that carry a checksum or are rebuilt when they are wrong."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def write_atomically(self, path: StrPath, data: Buffer, *, sync: bool = True) -> None:
        """A reader, now or after a crash, finds the old content or the new one.

        Without `sync` this holds for a crash of the process, not of the machine.
        """
        temporary = f"{path}.tmp"
        self.write_file(temporary, data, sync=sync)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, source: StrPath, target: StrPath) -> None:
        os.replace(source, target)

    def unlink(self, path: StrPath) -> None:
        """The name is removed afterwards; no error when it did not exist."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def list_names(self, path: StrPath) -> list[str]:
        return os.listdir(path)

    def list_directories(self, path: StrPath) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def make_directory(self, path: StrPath) -> None:
        """FileExistsError when the name exists."""
        os.mkdir(path, 0o755)

    def make_directories(self, path: StrPath) -> None:
        """The last of them for its owner alone: it is a data directory."""
        os.makedirs(path, 0o700, exist_ok=True)

    def remove_tree(self, path: StrPath) -> None:
        """An empty directory goes without a descriptor."""
        with contextlib.suppress(FileNotFoundError):
            try:
                os.rmdir(path)
            except OSError:
                shutil.rmtree(path)

    def exists(self, path: StrPath) -> bool:
        return os.path.exists(path)

    def size(self, path: StrPath) -> int:
        return os.stat(path).st_size

    def space(self, path: StrPath) -> DiskSpace:
        """The space of the path's disk. A network disk that hangs does not answer."""
        usage = os.statvfs(path)
        return DiskSpace(usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize)

    def modified_ms(self, path: StrPath) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_file(self, path: StrPath) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_directory(self, path: StrPath) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: StrPath) -> OpenFile:
        """BlockingIOError when another process, or another opener in this process, holds it. Kept until closed."""
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return file

    def lock_directory(self, path: StrPath) -> OpenFile:
        """As `lock`, on the directory itself: a rename takes the lock along, and no name is added. A file system that
        locks no directories (NFS) locks nothing here, and reports no error.
        """
        directory = OpenFile(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), str(path))
        try:
            fcntl.flock(directory.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            directory.close()
            raise
        except OSError:
            return directory
        return directory
