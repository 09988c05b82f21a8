"""A line in the log every few seconds, for whoever waits for a start or a shutdown with many partitions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

logger = logging.getLogger(__name__)

Element = TypeVar("Element")

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    def __init__(self, doing: str, total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._doing = doing
        self._total = total
        self._now = now
        self._done = 0
        self._last_line = now()

    def note(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        now = self._now()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            logger.info("%s: %d of %d", self._doing, self._done, self._total)


def with_progress(doing: str, elements: Sequence[Element]) -> Iterator[Element]:
    """The elements. An element is done when the next one is asked for."""
    progress = Progress(doing, len(elements))
    for element in elements:
        yield element
        progress.note(1)
