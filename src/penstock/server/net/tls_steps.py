"""Where the steps of TLS handshakes are made.

A step with a P-256 key takes 0.2 ms of signing and deriving keys, three times what a small request takes. On the event
loop each client that is served would wait for it. OpenSSL lets other threads run meanwhile, so a thread of its own
costs the loop 20 us for a step.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading

from penstock.server.net.handshakes import Done, Work

_Job = tuple[asyncio.AbstractEventLoop, Work, Done]


class StepThread:
    """One thread: handshakes get a core at most, and a step at a time. The thread starts with the first step."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Work, done: Done) -> None:
        """`work` in the thread, then `done` with its outcome on the loop that runs now."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="penstock-handshakes", daemon=True)
            self._thread.start()
        self._jobs.put((asyncio.get_running_loop(), work, done))

    def close(self) -> None:
        """What is under way ends; nobody hears of it when the loop has ended."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, work, done = job
            outcome = work()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done, outcome)
            del job, work, done  # or the client of the last step would be kept until the next one
