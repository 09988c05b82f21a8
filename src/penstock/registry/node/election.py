"""Elects the leader of a group of instances, from the metadata of its members. Pure.

Instances are members of a classic group (type `sr`, protocol `v0`). The metadata of each has its URL and whether it may
lead. The group's own leader, which may be any of them, chooses the registry's leader and names it to all members. The
fields are those of Confluent's registry, so that instances of both may be in one group.

Rules:
- The leader stays: the member whose metadata has `leader` is chosen again, whichever member joins or goes. Where none
  has it, or several do, the smallest URL wins. A member that was thrown out of the group no longer sets it.
- Equal URLs are error 1: a write that is forwarded there might come back to its sender.
- A member whose metadata cannot be decoded is never chosen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"

NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1

_VERSION: Final = 1
_MAX_PORT = 65_535


class UnreadableError(ValueError):
    """The bytes of a member, or of the group's leader, make no sense."""


@dataclass(frozen=True, slots=True)
class Identity:
    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"
    is_leader: bool = False  # by its own account

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def claiming(self, is_leader: bool) -> Identity:
        return replace(self, is_leader=is_leader)

    def encode(self) -> bytes:
        return _encode(self._fields())

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
        }
        return {**fields, "leader": True} if self.is_leader else fields

    @classmethod
    def decode(cls, data: bytes) -> Identity:
        return cls._of(_decode(data))

    @classmethod
    def _of(cls, fields: object) -> Identity:
        if not isinstance(fields, dict):
            raise UnreadableError("an instance is an object")
        host, port = fields.get("host"), fields.get("port")
        if not isinstance(host, str) or not host:
            raise UnreadableError("an instance has a host")
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= _MAX_PORT:
            raise UnreadableError("an instance has a port")
        scheme = fields.get("scheme") or "http"
        if scheme not in ("http", "https"):
            raise UnreadableError("an instance is reached by http or https")
        # Old instances do not send this, and may lead.
        is_eligible = fields.get("master_eligibility", True) is True
        return cls(host, port, is_eligible, scheme, fields.get("leader") is True)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The same for every member."""

    error: int = NO_ERROR
    leader_id: str | None = None  # a member of the group
    leader: Identity | None = None

    def encode(self) -> bytes:
        fields: dict[str, Any] = {"version": _VERSION, "error": self.error}
        if self.leader_id is not None and self.leader is not None:
            fields |= {"master": self.leader_id, "master_identity": self.leader._fields()}
        return _encode(fields)

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        fields = _decode(data)
        error, leader_id, leader = (fields.get(name) for name in ("error", "master", "master_identity"))
        if not isinstance(error, int):
            raise UnreadableError("an assignment has an error code")
        if not isinstance(leader_id, str) or leader is None:
            return cls(error)
        return cls(error, leader_id, Identity._of(leader))


def decide_leader(members: Mapping[str, bytes]) -> Assignment:
    """The assignment of all members, from the metadata of each."""
    known = {member_id: identity for member_id, data in members.items() if (identity := _try_decode(data)) is not None}
    urls = [identity.url for identity in known.values()]
    error = NO_ERROR if len(set(urls)) == len(urls) else DUPLICATE_URLS
    eligible = {member_id: identity for member_id, identity in known.items() if identity.is_eligible}
    if not eligible:
        return Assignment(error)
    claiming = [member_id for member_id, identity in eligible.items() if identity.is_leader]
    if len(claiming) == 1:
        chosen = claiming[0]
    else:
        chosen = min(eligible, key=lambda member_id: (eligible[member_id].url, member_id))
    return Assignment(error, chosen, eligible[chosen].claiming(False))


def _try_decode(data: bytes) -> Identity | None:
    try:
        return Identity.decode(data)
    except UnreadableError:
        return None


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
