"""Work on a thread, because the main thread has to be there when a signal comes: it alone is interrupted."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

# Often enough for Ctrl-C to feel immediate where waiting is not interrupted by itself.
_LOOK_SECONDS = 0.2
# Spark ends its tasks in less. What goes on after that, a plan for one, ends by itself and is not heard of again: it
# knows that it is cancelled before it does something that lasts.
_PATIENCE_SECONDS = 3.0


class CancelledError(Exception):
    """The user has ended the work."""


def run_interruptibly(work: Callable[[], Result], cancel: Callable[[], None]) -> Result:
    """What `work` returns or raises. Raises CancelledError after Ctrl-C; a second one is not waited upon."""
    task = Task(work)
    task.start()
    try:
        while not task.done.wait(_LOOK_SECONDS):
            pass
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt):
            _end(task, cancel)
        raise CancelledError from None
    return task.result()


def _end(task: Task[Result], cancel: Callable[[], None]) -> None:
    """Cancels again while the task goes on: it may have had nothing to cancel yet."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not task.done.is_set() and time.monotonic() < deadline:
        cancel()
        task.done.wait(_LOOK_SECONDS)


class Task(threading.Thread, Generic[Result]):
    """Work on a thread of its own."""

    def __init__(self, work: Callable[[], Result]) -> None:
        super().__init__(name="penstock-work", daemon=True)
        self._work = work
        self._results: list[Result] = []
        self._error: BaseException | None = None
        # A `join` that Ctrl-C interrupts takes the thread for one that has ended.
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001  # `result` raises it again
            self._error = error
        finally:
            self.done.set()

    def result(self) -> Result:
        if self._error is not None:
            raise self._error
        return self._results[0]
