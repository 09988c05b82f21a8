"""What is answered: rows of stores, and where stores stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    key: Any  # of a windowed row without its window
    value: Any
    timestamp_ms: int
    partition: int
    offset: int
    position: Mapping[int, int]  # where the store stood: by partition, the offset behind what was read
    start_ms: int | None = None  # of a windowed row
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    name: str
    topic: str
    is_ready: bool  # it was read to its end once
    rows: int
    position: Mapping[int, int]
    lag: int | None  # records behind; None while no broker has told
