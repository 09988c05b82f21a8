"""Code in a child that is a copy of this process, as `multiprocessing` makes one by a fork."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

_PATIENCE_S = 20


def in_a_fork(judge: Callable[[], bool]) -> bool:
    """What `judge` returns there; False where it raises, or has not returned after a while."""
    child = os.fork()
    if child == 0:
        is_sound = False
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends it
            signal.alarm(_PATIENCE_S)
            is_sound = judge()
        finally:
            os._exit(0 if is_sound else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
