"""Finds and ends the process that holds the lock on a file, such as a broker that another user has started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.processes.server_process import STOP_TIMEOUT_S

_LOCKS = Path("/proc/locks")
_POLL_S = 0.02


class NotEndedError(Exception):
    """The process goes on, and the user has to end it."""


def find_holder(lock: Path) -> int | None:
    """None where no process holds it, or the system does not show it: Linux alone does."""
    try:
        inode, lines = lock.stat().st_ino, _LOCKS.read_text().splitlines()
    except OSError:
        return None
    return next((pid for pid in _holders(lines, inode) if _has_open(pid, lock)), None)


def _holders(lines: list[str], inode: int) -> Iterator[int]:
    """`1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`. Other file systems may have the same inode."""
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            yield int(fields[4])


def _has_open(pid: int, lock: Path) -> bool:
    directory, wanted = f"/proc/{pid}/fd", os.path.realpath(lock)
    try:
        return any(os.path.realpath(f"{directory}/{number}") == wanted for number in os.listdir(directory))
    except OSError:
        return False


def end_holder(lock: Path, pid: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """The clean way. Returns when the lock is free. Raises NotEndedError."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise NotEndedError(f"process {pid} belongs to another user") from None
    deadline = time.monotonic() + timeout_s
    while find_holder(lock) == pid:
        if time.monotonic() >= deadline:
            raise NotEndedError(f"process {pid} did not end within {timeout_s:g} s")
        time.sleep(_POLL_S)
