"""Chooses the driver that runs an application, from the metadata of all drivers. Pure.

Drivers are members of a classic group (type `penstock-driver`). The group's own leader, which may be any of them,
chooses the holder and names it to all members, so each refused driver knows which one runs.

Rules:
- The holder stays: a driver whose metadata has `holds` is chosen again, whichever member joins or goes. A driver that
  the group has thrown out no longer sets it, unless that happened while it joined. A newcomer that began alone sets it
  from its second rebalance on.
- Where none sets it, or several do, the driver that was started first is chosen.
- A member whose metadata cannot be decoded is never chosen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

PROTOCOL_TYPE: Final = "penstock-driver"
PROTOCOL: Final = "v1"


class UnreadableError(ValueError):
    """Bytes of a member, or of the group's leader, that make no sense."""


@dataclass(frozen=True, slots=True)
class Driver:
    host: str
    pid: int
    since_ms: int
    checkpoint: str = ""
    holds: bool = False  # by its own account

    def __str__(self) -> str:
        checkpoint = f", with the checkpoint {self.checkpoint}" if self.checkpoint else ""
        return f"process {self.pid} on {self.host}, since {_moment(self.since_ms)}{checkpoint}"

    def holding(self, holds: bool) -> Driver:
        return replace(self, holds=holds)

    def encode(self) -> bytes:
        return _encode(self._fields())

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "host": self.host,
            "pid": self.pid,
            "since": self.since_ms,
            "checkpoint": self.checkpoint,
        }
        return {**fields, "holds": True} if self.holds else fields

    @classmethod
    def decode(cls, data: bytes) -> Driver:
        return cls._of(_decode(data))

    @classmethod
    def _of(cls, fields: object) -> Driver:
        if not isinstance(fields, dict):
            raise UnreadableError("a driver is an object")
        host, checkpoint = fields.get("host"), fields.get("checkpoint", "")
        if not isinstance(host, str) or not isinstance(checkpoint, str):
            raise UnreadableError("a driver has a host and a checkpoint")
        pid, since_ms = _number(fields.get("pid")), _number(fields.get("since"))
        return cls(host, pid, since_ms, checkpoint, fields.get("holds") is True)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The same for every member."""

    holder_id: str  # a member of the group
    holder: Driver

    def encode(self) -> bytes:
        return _encode({"member": self.holder_id, "driver": self.holder._fields()})

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        fields = _decode(data)
        holder_id = fields.get("member")
        if not isinstance(holder_id, str):
            raise UnreadableError("an assignment names a member")
        return cls(holder_id, Driver._of(fields.get("driver")))


def decide_holder(members: Mapping[str, bytes]) -> Assignment | None:
    """The assignment of all members, from the metadata of each. None where no metadata can be decoded."""
    known = {member_id: driver for member_id, data in members.items() if (driver := _try_decode(data)) is not None}
    if not known:
        return None
    holding = {member_id: driver for member_id, driver in known.items() if driver.holds}
    among = holding or known
    chosen = min(among, key=lambda member_id: (among[member_id].since_ms, member_id))
    return Assignment(chosen, among[chosen].holding(False))


def _try_decode(data: bytes) -> Driver | None:
    try:
        return Driver.decode(data)
    except UnreadableError:
        return None


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableError("a driver has a process and a time")
    return value


def _moment(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)


def _encode(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _decode(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise UnreadableError("not JSON") from None
    if not isinstance(fields, dict):
        raise UnreadableError("not an object")
    return fields
