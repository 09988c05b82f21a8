"""A line in the log every few seconds, during a start or a shutdown with many partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

logger = logging.getLogger(__name__)

Element = TypeVar("Element")

_LINE_EVERY_MS = 5_000


class Progress:
    def __init__(self, doing: str, total: int, now_ms: Callable[[], int]) -> None:
        self._doing = doing
        self._total = total
        self._now_ms = now_ms
        self._done = 0
        self._last_line_ms = now_ms()

    def note(self, count: int) -> None:
        """Counts more finished elements."""
        self._done += count
        now_ms = self._now_ms()
        if now_ms - self._last_line_ms >= _LINE_EVERY_MS:
            self._last_line_ms = now_ms
            logger.info("%s: %d of %d", self._doing, self._done, self._total)


def with_progress(doing: str, elements: Sequence[Element], now_ms: Callable[[], int]) -> Iterator[Element]:
    """The elements. An element is finished when the next is requested."""
    progress = Progress(doing, len(elements), now_ms)
    for element in elements:
        yield element
        progress.note(1)
