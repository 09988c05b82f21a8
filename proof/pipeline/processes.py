"""The processes of a Spark application: a driver that can be killed with its JVM, and what works for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.search_path import search_path

# Of a Python worker, and of the process that starts workers by copying itself.
_PYTHON_WORKER = "pyspark.daemon"
_GONE_TIMEOUT_S = 20.0
_POLL_S = 0.05
# The text in a log after a library has ended the process it runs in.
_ABORT_SIGNS = ("Assertion", "*** rdkafka", "Fatal Python error", "SIGSEGV", "OutOfMemoryError")
_WORDS = 800  # characters of a log that are quoted


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


class DriverProcess:
    """A driver in a process group of its own, its output appended to one log across restarts."""

    def __init__(self, module: str, arguments: Sequence[str], log_path: Path) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0  # of the driver that was started last
        self._left: set[int] = set()  # processes of killed drivers that may take a moment to notice

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *more: str) -> None:
        environment = os.environ | {"PYTHONPATH": search_path()}
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*self._command, *more], stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )

    def wait(self, timeout_s: float) -> int | None:
        """The exit code; None when it still runs."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Python and its JVM at once. Spark's Python workers notice by themselves, and until then are the zombies that
        a sink has to be safe from."""
        if self._process is None:
            return
        below = descendants(self._process.pid)
        self._left |= {process.pid for process in below}
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            for process in below:  # in a group of its own, and else left to a guardian that gives it time
                if _is_java(process):
                    kill_process(process.pid)
            self._process.wait()

    def workers(self) -> list[Process]:
        """Python workers at work or at hand; the process that makes them comes last."""
        if self._process is None:
            return []
        return python_workers(self._process.pid)

    def close(self) -> None:
        """Returns when nothing of it runs any more."""
        self.kill()
        deadline = time.monotonic() + _GONE_TIMEOUT_S
        while self._left and time.monotonic() < deadline:
            alive = {process.pid for process in _processes() if _PYTHON_WORKER in process.command}
            self._left &= alive
            time.sleep(_POLL_S)
        for pid in self._left:
            kill_process(pid)
        self._left.clear()

    def last_words(self) -> str:
        """How it ended and what it said last; what a C library says before it aborts may be further up."""
        output = self.log_path.read_bytes()[self._log_start :].decode(errors="replace")
        lines = [line for line in output.splitlines() if line.strip()]
        aborts = [line for line in lines if any(sign in line for sign in _ABORT_SIGNS)]
        return f"{self._how_it_ended()}: {' '.join([*aborts, *lines[-2:]])[-_WORDS:]}"

    def _how_it_ended(self) -> str:
        code = self._process.poll() if self._process is not None else None
        if code is None:
            return "still running"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def python_workers(of: int) -> list[Process]:
    workers = [each for each in descendants(of) if _PYTHON_WORKER in each.command]
    pids = {each.pid for each in workers}
    return sorted(workers, key=lambda each: each.parent not in pids)


def descendants(pid: int) -> list[Process]:
    children: dict[int, list[Process]] = {}
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
    below: list[Process] = []
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        below += new
        waiting += [process.pid for process in new]
    return below


def kill_process(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _is_java(process: Process) -> bool:
    return process.command.split(" ", 1)[0].endswith("java")


def _processes() -> list[Process]:
    processes = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # The name, in parentheses, may hold anything; state and parent follow it.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if state != "Z":
            processes.append(Process(int(entry.name), int(parent), command))
    return processes
