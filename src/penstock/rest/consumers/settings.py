"""How a consumer instance is set up, and how many there may be."""

from __future__ import annotations

import enum
from typing import NamedTuple

from penstock.rest.formats.formats import Format


class Reset(enum.StrEnum):
    """Where reading begins when the group has committed nothing, or what it has committed is gone."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class InstanceSettings(NamedTuple):
    form: Format = Format.BINARY
    reset: Reset = Reset.LATEST
    commits_itself: bool = False
    min_bytes: int = 1
    request_timeout_ms: int = 1000
    max_bytes: int = 64 * 1024 * 1024
    session_timeout_ms: int = 10_000


class InstanceLimits(NamedTuple):
    idle_s: float = 300.0
    most: int = 1000
    most_per_client: int = 100


class InstanceKey(NamedTuple):
    """Two callers may use the same names without seeing each other's instances."""

    principal: str
    group: str
    instance: str
