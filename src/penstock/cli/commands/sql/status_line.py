"""How far a stream has come: one line on a terminal, written over again, until there is something better to show."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from penstock.cli.progress import is_watched
from penstock.core.words.plurals import plural

if TYPE_CHECKING:
    from penstock.pipelines.progress.query_progress import QueryProgress

_EVERY_SECONDS = 1.0
_CLEAR = "\r\x1b[K"


def describe_progress(queries: Sequence[QueryProgress], waited_s: float) -> str:
    doing = next((each.doing for each in queries if each.doing), "")
    if all(each.batch_id < 0 for each in queries):
        return f"{doing or 'starting the stream'} ... {waited_s:.0f} s"
    written = sum(sum(each.written.values()) for each in queries)
    said = f"{plural(sum(each.rows for each in queries), 'record')} read, {plural(written, 'row')} written"
    lag = sum(each.lag for each in queries)
    said += f", {lag:,} to come" if lag else ""
    return f"{said}; {doing}" if doing else said


class StatusLine:
    """For several threads. Does nothing where nobody watches."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        is_shown: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._is_shown = is_watched() if is_shown is None else is_shown
        self._clock = clock
        self._began = clock()
        self._written_at = 0.0
        self._is_there = False
        self._lock = threading.Lock()

    def show(self, describe: Callable[[float], str]) -> None:
        """`describe` is given the seconds since the start, once a second at most."""
        now = self._clock()
        with self._lock:
            if not self._is_shown or (self._is_there and now - self._written_at < _EVERY_SECONDS):
                return
            self._stream.write(_CLEAR + describe(now - self._began))
            self._stream.flush()
            self._is_there, self._written_at = True, now

    def clear(self) -> None:
        """Before something else is written."""
        with self._lock:
            if self._is_there:
                self._stream.write(_CLEAR)
                self._stream.flush()
                self._is_there = False
