"""Threads for work that would hold up an event loop. They end with the process even in the middle of a job: Python's
own pool would keep the process from ending until its last job has come back.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")

Job = Callable[[], None]  # reports its errors itself


class DaemonThreads:
    """At most `most` threads; each starts when there is a job for it. Only the loop's thread calls the methods."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._count = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def run(self, job: Job) -> None:
        self._jobs.put(job)
        if self._count < self._most:
            self._count += 1
            name = f"{self._name}-{self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """The future gets the result or the error of the work."""
        future: Future[Result] = Future()
        self.run(functools.partial(_make, work, future))
        return future

    def close(self) -> None:
        """The threads end after the queued jobs. This call does not wait for them."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _run(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """A call of its own, so that the thread keeps nothing of a job while it waits for the next one. The traceback
        of an error that the job has handed on holds the variables of this call, so they are deleted.
        """
        job = self._jobs.get()
        if job is None:
            return False
        try:
            job()
        finally:
            del job
        return True


def _make(work: Callable[[], Result], future: Future[Result]) -> None:
    """Work may hold a client's token, and an error holds the variables of this call, so they are deleted."""
    try:
        if future.set_running_or_notify_cancel():
            future.set_result(work())
    except BaseException as error:  # noqa: BLE001  # the future hands it to its reader
        future.set_exception(error)
    finally:
        del work, future
