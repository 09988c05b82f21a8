"""Processes that do nothing but compute, so that servers and clients wait for a core as on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType
from typing import Self

# Asks for its parent now and then: where that was killed, another process has its place.
_LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(100_000): pass"


class BusyLoops:
    def __init__(self, count: int) -> None:
        self._count = count
        self._loops: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        return [loop.pid for loop in self._loops]

    def __enter__(self) -> Self:
        command = [sys.executable, "-I", "-S", "-c", _LOOP, str(os.getpid())]
        self._loops = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for loop in self._loops:
            loop.kill()
            loop.wait()
