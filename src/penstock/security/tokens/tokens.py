"""A delegation token: a name and a secret with which another client logs in as the token's owner for a while.

The secret is an HMAC of the token's id, made with the brokers' own secret, so it is stored nowhere. A client that knows
id and HMAC logs in by SCRAM with `tokenauth=true`.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from typing import NamedTuple


class DelegationToken(NamedTuple):
    """Principals are texts, `User:alice`. Times are of the wall clock."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_for(self, principal: str) -> bool:
        return principal == self.owner or principal in self.renewers

    def has_expired(self, now_ms: int) -> bool:
        return self.expiry_ms < now_ms or self.max_ms < now_ms


def token_hmac(secret: bytes, token_id: str) -> bytes:
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_password(token_hmac: bytes) -> str:
    """The password that a client sends."""
    return base64.b64encode(token_hmac).decode()


def encode_token(token: DelegationToken) -> Mapping[str, str]:
    return {
        "owner": token.owner,
        "tokenRequester": token.requester,
        "renewers": json.dumps(token.renewers),
        "issueTimestamp": str(token.issue_ms),
        "maxTimestamp": str(token.max_ms),
        "expiryTimestamp": str(token.expiry_ms),
    }


def owner_of(settings: Mapping[str, str]) -> str:
    """This and the next functions read an encoded token: many are looked at, and to decode one takes 3 us."""
    return settings["owner"]


def expiry_of(settings: Mapping[str, str]) -> int:
    return min(int(settings["expiryTimestamp"]), int(settings["maxTimestamp"]))


def decode_token(token_id: str, settings: Mapping[str, str]) -> DelegationToken:
    return DelegationToken(
        token_id,
        settings["owner"],
        settings["tokenRequester"],
        tuple(json.loads(settings["renewers"])),
        int(settings["issueTimestamp"]),
        int(settings["maxTimestamp"]),
        int(settings["expiryTimestamp"]),
    )
