"""Delegation tokens."""

from __future__ import annotations

from typing import NamedTuple


class TokenState(NamedTuple):
    """Principals are as in ACLs, `User:alice`. Times are in ms since 1970. `hmac` is the token's password."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str  # the same as the owner, where brokers before Kafka 3.3 do not tell
    issued_ms: int
    expires_ms: int
    latest_ms: int  # to which the token can be renewed
    renewers: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"TokenState({self.token_id!r}, owner={self.owner!r}, expires_ms={self.expires_ms})"
