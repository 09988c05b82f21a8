"""A call that may not come back.

librdkafka's send_offsets_to_transaction does not keep to its own timeout when the coordinator goes away at the wrong
moment (its issues 5456 and 5511), and a thread that waits inside it cannot be interrupted.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class StuckCallError(TimeoutError):
    """The call did not return in time. What it works on belongs to the thread that still waits for it."""


class _Outcome(Generic[T]):
    def __init__(self, result: T | None, error: BaseException | None) -> None:
        self.result = result
        self.error = error


def call_within(call: Callable[[], T], seconds: float) -> T:
    """What the call returns or raises; StuckCallError when it does neither in time."""
    outcomes: queue.SimpleQueue[_Outcome[T]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put(_Outcome(call(), None))
        except BaseException as error:  # noqa: BLE001  # handed to the caller's thread
            outcomes.put(_Outcome(None, error))

    threading.Thread(target=run, name="penstock-bounded-call", daemon=True).start()
    try:
        outcome = outcomes.get(timeout=seconds)
    except queue.Empty:
        raise StuckCallError(f"no answer after {seconds:g} s from a call that has its own time limit") from None
    if outcome.error is not None:
        raise outcome.error
    return outcome.result  # type: ignore[return-value]  # None only where the call returned it
