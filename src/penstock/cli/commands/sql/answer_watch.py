"""While an answer is waited for: whether it can come at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# An answer that takes longer makes people wonder. A broker that is there says so within milliseconds.
_SILENCE_SECONDS = 5.0


@contextmanager
def watched(
    trouble: Callable[[], str], tell: Callable[[str], None], silence_s: float = _SILENCE_SECONDS
) -> Iterator[None]:
    """Tells what `trouble` has to say, once, if this is open for longer than `silence_s`."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(silence_s):
            said = trouble()
            if said and not is_over.is_set():
                tell(f"{said}; the question waits for it")
                return

    threading.Thread(target=watch, name="penstock-sql-watch", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
