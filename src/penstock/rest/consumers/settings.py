"""The settings of a consumer instance, and the limits of their number."""

from __future__ import annotations

import enum
from typing import NamedTuple

from penstock.rest.formats.formats import Format


class Reset(enum.StrEnum):
    """The start of the read when the group has no committed offset, or its committed offset is out of range."""

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
