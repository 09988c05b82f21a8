"""Where the steps of TLS handshakes are made.

A step with a P-256 key takes 0.2 ms of signing and deriving keys, three times what a small request takes. On the event
loop each client that is served would wait for it. OpenSSL lets other threads run meanwhile, so a thread of its own
costs the loop 20 us for a step.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools

from penstock.core.daemon_threads import DaemonThreads
from penstock.server.net.handshakes import Done, Work


class StepThread:
    """One thread: handshakes get a core at most, and a step at a time."""

    def __init__(self) -> None:
        self._thread = DaemonThreads(1, "penstock-handshakes")

    def run(self, work: Work, done: Done) -> None:
        """`work` in the thread, then `done` with its outcome on the loop that runs now."""
        self._thread.run(functools.partial(_make, asyncio.get_running_loop(), work, done))

    def close(self) -> None:
        """What is under way ends; without a loop its outcome goes nowhere."""
        self._thread.close()


def _make(loop: asyncio.AbstractEventLoop, work: Work, done: Done) -> None:
    outcome = work()
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(done, outcome)
