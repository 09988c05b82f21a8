"""A piece of work that no signal cuts in two.

A KeyboardInterrupt that is raised between the start of a process and the note of its id leaves a process whose id is
lost.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that come meanwhile are handled afterwards. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        heard.append(number)

    # One that is ignored stays so: a child inherits that.
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: each for number, each in handlers.items() if each not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(heard):
            os.kill(os.getpid(), each)
