"""The cleaner's process from the broker's side: starts it on demand, sends requests, watches it, ends it.

Every call comes from one thread, and none takes longer than its limit: the broker waits for the process in short
pieces. SIGKILL ends the process, always. It has nothing to lose: `remove_leftovers` or the next start removes files
that it wrote and the broker did not put in place.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.log_cleaner import CleaningOutcome, CleaningRequest
from penstock.log.compaction.worker import messages
from penstock.log.compaction.worker.messages import Lines, Message

_READ_BYTES = 64 * 1024
# The number of lines of a failing interpreter that are kept for the log.
_KEPT_LINES = 30


class Patience(NamedTuple):
    start_seconds: float = 60.0  # usually 0.1; a start on a busy machine takes long
    silence_seconds: float = 120.0  # a disk may take that long over the fsync of a segment
    end_seconds: float = 5.0  # for a killed process; a process that waits for a broken disk stays
    # The process waits this long for the next log: twice the default of log.cleaner.backoff.ms.
    idle_seconds: float = 30.0


class WorkerUnavailableError(Exception):
    """The process does not start. An immediate retry would not help."""


class WorkerLostError(Exception):
    """The process ended, failed or was silent for too long, and was killed."""


def find_command() -> tuple[str, ...] | None:
    """The command of the process; None where `sys.executable` is a program that embeds Python, whose use of our
    arguments is unknown.
    """
    name = os.path.basename(sys.executable or "")
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return None
    # -P: the working directory of the broker is no place to import from.
    return (sys.executable, "-P", "-m", "penstock.log.compaction.worker")


class CleanerProcess:
    """One cleaning at a time: `begin`, then `advance` until it has returned the outcome, with `proceed` after each
    replacement. `end` at any time.
    """

    def __init__(self, command: Sequence[str], patience: Patience | None = None) -> None:
        self._command = (*command, str(os.getpid()))
        self.patience = patience or Patience()
        self._running: _Running | None = None
        self._lingering: list[subprocess.Popen[bytes]] = []  # killed, and not yet ended
        self._directory = ""
        self._bytes_per_second = 0.0

    @property
    def idle_seconds(self) -> float:
        return self.patience.idle_seconds

    @property
    def process_id(self) -> int | None:
        return None if self._running is None else self._running.process.pid

    def begin(self, request: CleaningRequest, bytes_per_second: float) -> None:
        """WorkerUnavailableError when the system refuses the process."""
        if self._running is not None and self._running.process.poll() is not None:
            self.end()  # another process killed it while it had nothing to do
        if self._running is None:
            self._running = _Running(self._command, self.patience.start_seconds)
        self._directory = request.directory
        self._bytes_per_second = bytes_per_second
        clean = {"clean": messages.encode_request(request), "bytes_per_second": bytes_per_second}
        self._send(clean)

    def advance(self, bytes_per_second: float, seconds: float) -> Replacement | CleaningOutcome | None:
        """Waits for the progress of the process, up to a limit. CorruptLogError and OSError are those of
        `Cleaning.steps`; after any exception the process is gone.
        """
        if bytes_per_second != self._bytes_per_second:
            self._bytes_per_second = bytes_per_second
            self._send({"bytes_per_second": bytes_per_second})
        try:
            return self._interpret(self._expect().receive(seconds))
        except BaseException:
            self.end()
            raise

    def proceed(self) -> None:
        self._send({"proceed": True})

    def end(self) -> bool:
        """Kills the process. False when it does not end all the same: then it may still write, and holds its lock."""
        running, self._running = self._running, None
        self._lingering = [each for each in self._lingering if each.poll() is None]
        if running is None or running.end(self.patience.end_seconds):
            return True
        self._lingering.append(running.process)
        return False

    def _expect(self) -> _Running:
        if self._running is None:
            raise WorkerLostError("the cleaner's process was ended")
        return self._running

    def _send(self, message: Message) -> None:
        running = self._expect()
        running.send(message)
        running.expect_within(self.patience.silence_seconds)

    def _interpret(self, message: Message | None) -> Replacement | CleaningOutcome | None:
        match message:
            case None:
                return None
            case {"replacement": fields}:
                return messages.decode_replacement(fields, self._directory)
            case {"done": fields}:
                return messages.decode_outcome(fields)
            case {"corrupt": fields}:
                raise messages.decode_corruption(fields, self._directory)
            case {"refused": fields}:
                raise messages.decode_refusal(fields, self._directory)
            case {"failed": text}:
                raise WorkerLostError(f"the cleaner's process failed:\n{text}")
            case {"ready": version} if version != messages.VERSION:
                raise WorkerUnavailableError(f"the cleaner's process is of another version ({version})")
        self._expect().expect_within(self.patience.silence_seconds)
        return None


class _Running:
    """One life of the process, and its pipes. Outgoing messages wait until the process takes them."""

    def __init__(self, command: Sequence[str], start_seconds: float) -> None:
        # The child process imports from the same path: a path may have been added at run time.
        search_path = os.pathsep.join(os.path.abspath(each) for each in sys.path if each)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": search_path},
                # Ctrl-C in a terminal is for the broker alone. Not a session of its own: Linux shares a processor out
                # between sessions first, where that is switched on, and the niceness would not count.
                process_group=0,
            )
        except OSError as error:
            raise WorkerUnavailableError(f"{command[0]}: {error}") from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._to, False)
        self._outgoing = b""
        self._lines = Lines()
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._is_ready = False
        self._start_seconds = start_seconds
        self._deadline = time.monotonic() + start_seconds

    def send(self, message: Message) -> None:
        self._outgoing += messages.encode(message)

    def expect_within(self, seconds: float) -> None:
        if self._is_ready:
            self._deadline = time.monotonic() + seconds

    def receive(self, seconds: float) -> Message | None:
        """The next message; waits up to a limit."""
        until = time.monotonic() + seconds
        while True:
            message = self._take()
            if message is not None:
                self._is_ready = True
                return message
            left = until - time.monotonic()
            if left <= 0:
                self._check_patience()
                return None
            self._exchange(left)

    def _take(self) -> Message | None:
        while (line := self._lines.take()) is not None:
            message = messages.decode(line)
            if message is not None:
                return message
            self._said.append(line.decode(errors="replace"))
        return None

    def _exchange(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        if self._outgoing:
            poll.register(self._to, select.POLLOUT)
        for fd, _ in poll.poll(seconds * 1000):
            if fd == self._to:
                # A failed write to an ended process shows in its output.
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    self._outgoing = self._outgoing[os.write(self._to, self._outgoing) :]
            elif data := os.read(self._from, _READ_BYTES):
                self._lines.feed(data)
            else:
                self._raise_ended()

    def _raise_ended(self) -> None:
        """Raises the error at the end of its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.1)
        status = self.process.poll()
        self._said.append(self._lines.rest().decode(errors="replace"))
        said = "\n".join(each for each in self._said if each)
        what = f"the cleaner's process ended with status {status}{': ' if said else ''}{said}"
        # A signal is an accident; an interpreter that cannot start would fail again.
        if not self._is_ready and status is not None and status > 0:
            raise WorkerUnavailableError(what)
        raise WorkerLostError(what)

    def _check_patience(self) -> None:
        if time.monotonic() < self._deadline:
            return
        if not self._is_ready:
            raise WorkerUnavailableError(f"the cleaner's process did not start within {self._start_seconds:g} s")
        raise WorkerLostError("the cleaner's process says nothing any more")

    def end(self, seconds: float) -> bool:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
