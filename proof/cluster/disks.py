"""The disk of one broker, which can be full.

With root it is a file system in memory whose size is set to what is used. Without root the kernel is told to let no
file of the broker's process grow, which the broker sees as EFBIG instead of ENOSPC.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

_SIZE = 2 * 1024**3
_SOURCE = "penstock-proof-"


class Disk(Protocol):
    def fill(self, pid: int, slack: int) -> None:
        """From now on at most `slack` more bytes fit, as seen by the broker's process."""

    def free(self, pid: int | None) -> None:
        """There is room again. `pid` is the broker's process, if it still runs."""

    def close(self, *, is_kept: bool) -> None:
        """Nobody writes any more. With `is_kept` the files are in the directory afterwards."""


class MountedDisk:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", f"{_SOURCE}{os.getpid()}", str(directory))

    def fill(self, pid: int, slack: int) -> None:
        state = os.statvfs(self._directory)
        self._resize((state.f_blocks - state.f_bfree) * state.f_frsize + slack)

    def free(self, pid: int | None) -> None:
        self._resize(_SIZE)

    def close(self, *, is_kept: bool) -> None:
        copy = self._directory.with_name(f"{self._directory.name}-copy")
        if is_kept:
            with contextlib.suppress(OSError):  # the disk beneath is full: then some files are missing
                shutil.copytree(self._directory, copy, symlinks=True)
        _run("umount", "--lazy", str(self._directory))
        if copy.exists():
            copy.rename(self._directory)

    def _resize(self, size: int) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self._directory))


class LimitedDisk:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)

    def fill(self, pid: int, slack: int) -> None:
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (slack, most))

    def free(self, pid: int | None) -> None:
        if pid is not None:
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))

    def close(self, *, is_kept: bool) -> None:
        """Nothing was taken, and the files are where they were written."""


def empty_directory(directory: Path) -> None:
    """What a new machine in the place of a broken one has: the directory, with nothing in it."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def remove_leftovers() -> None:
    """File systems of runs that were killed."""
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        source, directory, *_ = line.split(" ")
        pid = source.removeprefix(_SOURCE)
        if pid != source and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(subprocess.CalledProcessError):
                _run("umount", "--lazy", directory)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
