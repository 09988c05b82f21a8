"""Ends the processes of a program that has died without ending them: by SIGKILL, or by a SIGTERM it does not handle.

The program starts a guardian, a small process of its own, and sends it by a pipe the processes to watch over. When
the program dies, however that happens, the system closes the pipe, and the guardian ends the processes that are left,
those that started last first: each stage gets SIGTERM and then SIGKILL. This needs no code in the processes
themselves, one of which is Java's, and works wherever there are pipes.

Rules:
- The guardian has a process group of its own, so Ctrl-C at the terminal does not reach it.
- The number of a process that has ended may belong to another process now, which the guardian leaves alone. It
  recognises a watched process by the time of its start, which Linux shows; and a foreign one by leading no process
  group, since all watched processes lead groups of their own.

This module runs in both: the program imports it, and the guardian runs it as a script. So it imports nothing of
Penstock, and starts in some milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# For a broker to close its logs. A broker that is killed instead checks its logs at the next start.
_PATIENCE_S = 10.0
_POLL_S = 0.02


class Guardian:
    """Watches over processes that this one started, until it is closed or this one dies."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # Isolated and without site packages: it needs the standard library alone.
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, pid: int, stage: int) -> None:
        """The process must lead its own process group. Higher stages end first."""
        # This process reads the start, not the guardian: until it waits for its child, no other process gets the
        # number.
        self._tell(f"watch {pid} {stage} {read_start(pid)}")

    def forget(self, pid: int) -> None:
        """The process has ended."""
        self._tell(f"forget {pid}")

    def close(self) -> None:
        """Ends the processes that it still watches over."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the guardian is gone: all else goes on without it
            assert self._process.stdin is not None
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()


def read_start(pid: int) -> int:
    """When the process started, in ticks since the system did; 0 where the system does not show it."""
    try:
        # The second field, the name, is in parentheses and may contain anything. The start is the 22nd.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


# ---------------------------------------------------------------------------------------- the guardian's own process


class _Watched(NamedTuple):
    pid: int
    stage: int
    start: int


def watch_over(lines: Iterable[str]) -> None:
    """Returns when the lines have ended, and it has ended the watched processes."""
    watched: dict[int, _Watched] = {}
    for line in lines:
        word, *numbers = line.split()
        if word == "watch":
            process = _Watched(*map(int, numbers))
            watched[process.pid] = process
        else:
            watched.pop(int(numbers[0]), None)
    for stage in sorted({each.stage for each in watched.values()}, reverse=True):
        _end([each for each in watched.values() if each.stage == stage])


def _end(processes: list[_Watched]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for each in processes:
            if _is_there(each):
                with contextlib.suppress(OSError):
                    os.kill(each.pid, signal_number)
                    os.kill(each.pid, signal.SIGCONT)  # a paused process does not act on SIGTERM
        deadline = time.monotonic() + _PATIENCE_S
        while any(map(_is_there, processes)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _is_there(process: _Watched) -> bool:
    try:
        return os.getpgid(process.pid) == process.pid and read_start(process.pid) == process.start
    except OSError:
        return False


if __name__ == "__main__":
    watch_over(sys.stdin)
