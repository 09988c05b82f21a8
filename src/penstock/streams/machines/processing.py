"""What people write for `process`: a class with named states per key.

class Alerts(Processor):
    columns = "user string, n bigint"
    seen = value_state("n bigint", ttl="1 hour")

    def process(self, key, row, context):
        n = (self.seen.get() or {"n": 0})["n"] + 1 ...
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from penstock.streams.machines.machine import StateKind, StateSpec


class Processor:
    columns: str = ""  # DDL of what comes out
    time = "event"  # what rings timers: "event" or "processing"

    def process(self, key: Any, row: Any, context: Any) -> Iterable[Any] | None:
        raise NotImplementedError

    def on_timer(self, key: Any, at: Any, context: Any) -> Iterable[Any] | None:
        return None


def value_state(columns: str, *, ttl: str | timedelta | None = None) -> Any:
    return StateSpec(StateKind.VALUE, columns)


def list_state(columns: str, *, ttl: str | timedelta | None = None) -> Any:
    return StateSpec(StateKind.LIST, columns)


def map_state(key: str, columns: str, *, ttl: str | timedelta | None = None) -> Any:
    return StateSpec(StateKind.MAP, columns, key)
