"""Puts lines into a topic, on a thread of its own, at a steady pace or as fast as they can be made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, Message, Producer

from demo_lines import LogLines

# Lines to start with: enough that every part of the job has something to do.
_FIRST = 200
# Lines made at a time at full speed: large enough to cost nothing, small enough to stop at once.
_CHUNK = 1000
_TICK_S = 0.05
_FLUSH_S = 60.0


def lines_due(rate: int, elapsed_s: float, made: int, limit: int) -> int:
    """How many to make now. `rate` a second, 0 for as many as possible; `limit` altogether, 0 for no end."""
    due = _CHUNK if rate == 0 else int(rate * elapsed_s) - made
    return max(0, min(due, limit - made) if limit else due)


class Feed(threading.Thread):
    """A few lines, and the rest once `open` is called. Ends `duration_s` after that (0: never), after `limit` lines
    (0: never), or when `stop` is called; then every line is acknowledged, or `failure` says what went wrong."""

    def __init__(
        self, bootstrap_servers: str, topic: str, lines: LogLines, rate: int, duration_s: float = 0, limit: int = 0
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self.failure = ""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,  # what fails is told by delivery reports; the broker going away at the end is no news
                "linger.ms": 20,
                "compression.type": "lz4",
            }
        )
        self._topic = topic
        self._lines = lines
        self._rate, self._duration_s, self._limit = rate, duration_s, limit
        self._opened = threading.Event()
        self._stopping = threading.Event()

    @property
    def produced(self) -> int:
        return len(self._lines.kinds)

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        self._opened.set()

    def stop(self) -> None:
        self._stopping.set()
        self._opened.set()

    def run(self) -> None:
        self._send(self._lines.take(min(_FIRST, self._limit or _FIRST)))
        self._producer.flush(_FLUSH_S)
        self._opened.wait()
        first, started = self.produced, time.monotonic()
        while not self._is_over(time.monotonic() - started):
            rest = self._limit and self._limit - first
            self._send(self._lines.take(lines_due(self._rate, time.monotonic() - started, self.produced - first, rest)))
            self._producer.poll(0)
            if self._rate:
                self._stopping.wait(_TICK_S)
        if left := self._producer.flush(_FLUSH_S):
            self.failure = self.failure or f"{left} lines were not acknowledged within {_FLUSH_S:.0f} s"

    def _is_over(self, elapsed_s: float) -> bool:
        is_late = bool(self._duration_s) and elapsed_s >= self._duration_s
        is_full = bool(self._limit) and self.produced >= self._limit
        return self._stopping.is_set() or bool(self.failure) or is_late or is_full

    def _send(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            while True:
                try:
                    self._producer.produce(self._topic, line, on_delivery=self._note)
                except BufferError:
                    self._producer.poll(0.1)
                else:
                    break

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failure = self.failure or str(error)
