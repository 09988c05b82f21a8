"""The one client of a round: an idempotent producer of librdkafka at its defaults, but for the linger, and its log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

from penstock.testing.fleet.client import Setting
from proof.fleet.streams import STREAM_KINDS, StreamSender

_IDEMPOTENT = next(index for index, kind in enumerate(STREAM_KINDS) if kind.name == "idempotent")
_POLL_S = 0.05
# What the library tells of its producer id and its sequences, and of each batch's fate: some lines for a record.
_DEBUG = "eos,msg"
# What is counted of them: the name of a line, and a part of its text.
_COUNTED = {
    ("PRODUCE", "Produce MessageSet"): "batches sent",
    ("MSGSET", "delivered"): "delivered",
    ("MSGSET", "encountered error"): "refused",
    ("ERRSEQ", ""): "refused as out of order",
    ("DUPSEQ", ""): "refused as a copy",
    ("ERRPID", ""): "refused for their producer id",
    ("IMPLICITACK", ""): "taken for written because a later one is",
    ("DRAIN", "bumped epoch"): "epochs bumped",
}


class LibraryLog(logging.Handler):
    """What librdkafka logged in one round."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        # One of its own, and not one of the tree, which would keep it after the round.
        self.logger = logging.Logger("librdkafka", logging.DEBUG)  # noqa: LOG001
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.lines.append(f"{record.created:.3f} {text}")
        for (name, part), what in _COUNTED.items():
            if text.startswith(f"{name} ") and part in text:
                self.counts[what] += 1


class Writer(StreamSender):
    """A record every 5 ms on average, each partition in turn."""

    pause_s = 0.005

    def __init__(self, setting: Setting, patience_s: float) -> None:
        self.library = LibraryLog()
        self._patience_s = patience_s
        super().__init__(_IDEMPOTENT, setting, patience_s)

    def library_config(self) -> dict[str, Any]:
        """Its defaults, and not those of patient clients: how long it waits between attempts is part of the fault."""
        return {
            "bootstrap.servers": self.setting.servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "debug": _DEBUG,
            "logger": self.library.logger,
        }

    def step(self) -> None:
        self.send()
        self._producer.poll(0)

    @property
    def waiting(self) -> int:
        """Records without an acknowledgement."""
        return len(self.log.offsets) - self.log.acknowledged

    def wait_for_more(self, count: int) -> None:
        """Until so many more records are acknowledged; TimeoutError."""
        wanted, deadline = self.log.acknowledged + count, time.monotonic() + self._patience_s
        while self.log.acknowledged < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.waiting} records are not acknowledged after {self._patience_s:g} s")
            time.sleep(_POLL_S)
