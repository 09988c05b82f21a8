"""Finds the token of an HMAC. A client that renews or ends a token sends only its HMAC, which is stored nowhere.

Rules:
- The HMAC of a token is computed once, at the first search after the token has come.
- An HMAC is searched for by its digest, and then compared: the time of a search reveals nothing of an HMAC.
- Tokens that are gone are forgotten at the next search.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from penstock.security.tokens.tokens import token_hmac


class TokensByHmac:
    def __init__(self) -> None:
        self._secret = b""
        self._digests: dict[str, bytes] = {}  # by token id
        self._token_ids: dict[bytes, str] = {}  # by digest

    def find(self, tokens: Mapping[str, object], secret: bytes, wanted: bytes) -> str | None:
        """The id of the token, one of `tokens`. Costs 3 us for each token that is new, and some 20 ns for the others.
        For one thread at a time.
        """
        self._follow(tokens, secret)
        token_id = self._token_ids.get(_digest(wanted))
        if token_id is None or not hmac.compare_digest(token_hmac(secret, token_id), wanted):
            return None
        return token_id

    def _follow(self, tokens: Mapping[str, object], secret: bytes) -> None:
        if not hmac.compare_digest(secret, self._secret):
            self._secret = secret
            self._digests.clear()
            self._token_ids.clear()
        for token_id in self._digests.keys() - tokens.keys():
            del self._token_ids[self._digests.pop(token_id)]
        for token_id in tokens.keys() - self._digests.keys():
            digest = self._digests[token_id] = _digest(token_hmac(secret, token_id))
            self._token_ids[digest] = token_id


def _digest(token_hmac: bytes) -> bytes:
    return hashlib.sha256(token_hmac).digest()
