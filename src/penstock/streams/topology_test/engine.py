"""What runs the queries of a test: at once (`batch`), or step by step (`stepping`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.streams.topology_test.records import RawRecord


class Engine(Protocol):
    def pipe(self, topic: str, records: Sequence[RawRecord]) -> None: ...

    def read(self, topic: str) -> Sequence[RawRecord]:
        """All that was written there so far."""

    def close(self) -> None: ...
