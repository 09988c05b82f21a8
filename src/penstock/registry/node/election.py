"""Who leads: what instances tell of themselves, and how one of them is chosen. Pure.

Instances are members of a classic group (type `sr`, protocol `v0`). Each tells its URL and whether it may lead. The
group's own leader, which is any of them, chooses the registry's leader and tells everybody. The words are those of
Confluent's registry, so that instances of both may be in one group.

Rules:
- The leader stays: the member that says `leader` of itself is chosen again, whoever joins or goes. Where none says so,
  or several do, the smallest URL wins. A member that was thrown out of the group does not say so any more.
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
    """Bytes of a member, or of the group's leader, that make no sense."""


@dataclass(frozen=True, slots=True)
class Identity:
    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"
    is_leader: bool = False  # says it of itself

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
        # Old instances do not tell, and may lead.
        is_eligible = fields.get("master_eligibility", True) is True
        return cls(host, port, is_eligible, scheme, fields.get("leader") is True)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What every member is told."""

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
    """The assignment of all members, by what each has told."""
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
