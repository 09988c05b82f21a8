"""A program of a user, at its client's defaults, that must not notice what is done to the cluster."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Consumer, Producer

PATIENCE_S = 120.0


class Application:
    """Writes and reads, as a user's program does, with its client's defaults; notes whatever error reaches it.

    `settings` say how it connects. Values begin with `name`, so that two programs on one topic can be told apart.
    """

    def __init__(
        self, servers: str, topic: str, settings: Mapping[str, Any] | None = None, *, group: str = "", name: str = ""
    ) -> None:
        self._settings = {"bootstrap.servers": servers, "log_level": 0, **(settings or {})}
        self._topic = topic
        self._group = group or "application"
        self._name = name
        self._over = threading.Event()
        self.errors: list[str] = []
        self.sent: list[bytes] = []
        self.received: list[bytes] = []
        self._threads = [threading.Thread(target=work) for work in (self._write, self._read)]

    def _write(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True})

        def report(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(f"a record was refused: {error}")
            else:
                self.sent.append(message.value())

        number = 0
        while not self._over.is_set():
            value = f"{self._name}{number}".encode()
            producer.produce(self._topic, value, key=str(number % 7).encode(), on_delivery=report)
            number += 1
            producer.poll(0.01)
        if producer.flush(PATIENCE_S):
            self.errors.append("records are still on their way")

    def _read(self) -> None:
        consumer = Consumer({**self._settings, "group.id": self._group, "auto.offset.reset": "earliest"})
        consumer.subscribe([self._topic])
        try:
            while not self._is_all_read():
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if message.error() is not None:
                    self.errors.append(f"a poll failed: {message.error()}")
                else:
                    self.received.append(message.value() or b"")
        finally:
            consumer.close()

    def _is_all_read(self) -> bool:
        is_writing = self._threads[0].is_alive()
        return not is_writing and (bool(self.errors) or set(self.received) >= set(self.sent))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


def check(application: Application) -> None:
    assert application.errors == []
    assert len(application.sent) == len(set(application.sent)) > 100
    assert set(application.received) == set(application.sent)
