"""Rows that were left out, and why: null keys, values that did not decode, rows that came too late."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeftOut:
    null_keys: int = 0
    undecoded: int = 0
    late: int = 0
