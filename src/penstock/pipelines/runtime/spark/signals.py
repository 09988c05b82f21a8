"""Applies SIGINT and SIGTERM to work on Spark.

- A command runs its work on a thread of its own (`run_until_signalled`), so that the main thread hears signals whatever
  the work waits for.
- While there is nothing that must be finished, as long as Spark starts, the first signal ends everything.
- Once batches run (`Course.finished_by`), the first signal lets them come to their end. The second one ends everything:
  what the batches have written is written again by the next run, as after a crash.
- A user's program keeps Python's rules until its batches run, and gets KeyboardInterrupt from the second signal
  (`stopped_by_signals`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TextIO, TypeVar

from penstock.core.words.failure_text import tell_error
from penstock.pipelines.runtime.spark.interruptible_task import CancelledError, Task
from penstock.pipelines.runtime.spark.jvm import JVM
from penstock.pipelines.spark_home import remove_own_home

Result = TypeVar("Result")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOPPING = "stopping: the batches at work end first; a second Ctrl-C or SIGTERM ends everything at once"
_ENDED = "interrupted: the batches at work were not finished"
_SHOW_CURSOR = "\x1b[?25h"
_INTERRUPTED = 130  # as shells report it
# Often enough for Ctrl-C to feel immediate.
_LOOK_S = 0.1
# `timeout` and others signal a process and then its group: what comes so soon is the same signal, and what comes after
# the line that answers it is another one.
_SAME_SIGNAL_S = 0.1
# For the work to clean up after Spark has ended, and to report its end. All has to be over after 5 s, of which Spark
# takes two.
_PATIENCE_S = 2.0


class Course:
    """The progress of the work: the work's thread sets it, and the main thread reads it when a signal comes."""

    def __init__(self, doing: str) -> None:
        self.doing = doing  # in "interrupted ..."
        self._finish: Callable[[], object] | None = None
        self._has_begun: Callable[[], object] = bool
        self._line = ""

    @contextmanager
    def finished_by(
        self, finish: Callable[[], object], line: str = _STOPPING, has_begun: Callable[[], object] = lambda: True
    ) -> Iterator[None]:
        """Work inside has something to finish as soon as it has begun: the first signal calls `finish`, and prints the
        line."""
        self._has_begun, self._line, self._finish = has_begun, line, finish
        try:
            yield
        finally:
            self._finish, self.doing = None, "while Spark ended"

    def finish(self) -> bool:
        """Calls `finish` of the work. False where there is nothing to finish."""
        finish = self._finish
        if finish is None or not self._has_begun():
            return False
        finish()
        _tell(self._line)
        return True


class _OwnVoice:
    """Standard error for the main thread alone: other threads would only report that Java is gone. PySpark's threads
    print such tracebacks without any logger."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if threading.current_thread() is threading.main_thread():
            return self._stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _end_spark() -> None:
    if not isinstance(sys.stderr, _OwnVoice):
        sys.stderr = _OwnVoice(sys.stderr)
    JVM.end()
    remove_own_home()  # this process ends without its exit handlers


def run_until_signalled(
    work: Callable[[Course], Result],
    doing: str = "while Spark started",
    end_spark: Callable[[], None] = _end_spark,
    end_process: Callable[[int], object] = os._exit,
    patience_s: float = _PATIENCE_S,
) -> Result:
    """What `work` returns or raises. A signal that ends it ends Spark and this process, with a line for the user."""
    course = Course(doing)
    if threading.current_thread() is not threading.main_thread():
        return work(course)  # without signals, which only the main thread gets
    task = Task(lambda: work(course))
    heard: list[int] = []

    def end(line: str) -> NoReturn:
        end_spark()
        task.done.wait(patience_s)
        _tell_at_last(line, is_idle=task.done.is_set())
        # Threads may still wait for a server that does not answer, and the interpreter would wait for them.
        end_process(_INTERRUPTED)
        raise CancelledError(line)  # where the process is a test's

    with _handling(lambda number, _: heard.append(number), _SIGNALS):
        task.start()
        known = 0  # signals that were answered
        while not task.done.wait(_LOOK_S):
            if len(heard) == known:
                continue
            if known:
                end(_ENDED)
            task.done.wait(_SAME_SIGNAL_S)
            known = len(heard)
            if not course.finish():
                end(f"interrupted {course.doing}".rstrip())
    return task.result()


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """To be entered when the session is there, since Spark puts a handler of its own in place, and before the queries
    start. A thread calls `stop`: a handler interrupts the main thread wherever that is, perhaps while it holds the very
    lock that `stop` takes."""
    first = 0.0
    signals: queue.SimpleQueue[bool] = (
        queue.SimpleQueue()
    )  # a handler may put: Python's documentation calls `put` reentrant

    def heard(_number: int, _frame: FrameType | None) -> None:
        nonlocal first
        if first and time.monotonic() > first + _SAME_SIGNAL_S:
            raise KeyboardInterrupt
        first = first or time.monotonic()
        signals.put(True)

    def stop_at_signals() -> None:
        while signals.get():
            stop()

    stopping = threading.Thread(target=stop_at_signals, name="penstock-signals", daemon=True)
    stopping.start()
    try:
        with _handling(heard, _SIGNALS):
            yield
    finally:
        signals.put(False)
        stopping.join(_PATIENCE_S)


@contextmanager
def left_by_termination() -> Iterator[None]:
    """SIGTERM raises SystemExit: what takes KeyboardInterrupt for the end of a question lets that pass."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(_INTERRUPTED)

    with _handling(leave, (signal.SIGTERM,)):
        yield


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], Any], numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Off the main thread nothing changes: Python has signals there alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def _tell_at_last(line: str, is_idle: bool) -> None:
    """The drawing of the work on the terminal may still be there. Unfinished work may hold standard output, and wait
    for the reader of a pipe."""
    if is_idle:
        with contextlib.suppress(OSError, ValueError):
            if sys.stdout.isatty():
                sys.stdout.write(f"\r\x1b[K{_SHOW_CURSOR}")
            sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        tell_error(line)
        sys.stderr.flush()


def _tell(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # closed
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
