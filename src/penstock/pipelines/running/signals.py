"""SIGINT and SIGTERM end a run as they end any process that is asked to go: batches under way come to their end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """To be entered when the session is there, since Spark puts a handler of its own in place, and before the queries
    start. Off the main thread nothing changes: Python has signals there alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
