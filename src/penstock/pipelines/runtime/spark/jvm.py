"""Spark's JVM as a process that this one has started: known from its first moment, and ended with this one.

PySpark exposes the process only when Spark answers, some seconds after its start. A program that is interrupted before
must end it even so. Should this process die without ending it, a guardian does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.core.guardian import Guardian

# For Java to remove its temporary files; a user who has interrupted a program does not want to wait longer.
_PATIENCE_S = 1.0
_POLL_S = 0.02


class Jvm:
    """See `JVM`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[Any] | None = None
        self._guardian: Guardian | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    @contextlib.contextmanager
    def starting(self, options: Sequence[str] = ()) -> Iterator[None]:
        """What PySpark starts within is the JVM. Its spark-submit gets these options before PySpark's own."""
        from pyspark import java_gateway

        def start(command: Sequence[str], **rest: Any) -> subprocess.Popen[Any]:
            return self._start([command[0], *options, *command[1:]], **rest)

        real = java_gateway.Popen
        java_gateway.Popen = start  # type: ignore[misc,assignment]  # there is no other way to its process
        try:
            yield
        finally:
            java_gateway.Popen = real  # type: ignore[misc]

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        with self._lock:
            if self._is_ended:
                raise RuntimeError("this process ends, and starts no Spark any more")
            # A group of its own: by that the guardian recognises the process.
            self._process = subprocess.Popen(command, **options, process_group=0)
            self._guardian = Guardian()
            self._guardian.watch(self._process.pid, 0)
        return self._process

    def end(self) -> None:
        """At once. Also where Spark is still starting; none is started any more."""
        logging.disable()  # threads that wait for Java would log its end, py4j's in the name of the root logger
        with self._lock:
            self._is_ended = True
            process, self._process = self._process, None
            if process is not None:
                _end(process)
            if self._guardian is not None:
                self._guardian.close()
                self._guardian = None


def _end(process: subprocess.Popen[Any]) -> None:
    """The process and its group: while Spark starts, Java is a child of the script that PySpark has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while _is_group(process) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _is_group(process: subprocess.Popen[Any]) -> bool:
    process.poll()  # else it stays in its group when it has ended
    try:
        os.killpg(process.pid, 0)
    except OSError:
        return False
    return True


# PySpark has one for each process, and keeps it in a class of its own.
JVM = Jvm()
