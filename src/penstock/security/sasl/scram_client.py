"""The client's side of SCRAM.

The salted password of the last login is kept: a broker names the same salt each time, and computing the salted password
takes milliseconds. Both sides bound the number of iterations, because the client reads it before the broker has proved
anything.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

from penstock.security.sasl import scram
from penstock.security.sasl.exchange import ClientExchange, LoginError, Step
from penstock.security.sasl.scram import ScramHash

_GS2_HEADER = "n,,"
_NONCE_BYTES = 18


class ScramCredentials:
    def __init__(self, hashing: ScramHash, user: str, password: str, *, is_token: bool = False) -> None:
        """`is_token`: the user is the id of a delegation token, the password its HMAC in base64."""
        self.mechanism = hashing.mechanism
        self._hashing = hashing
        self._user = user
        self._password = password
        self._is_token = is_token
        self._salted: tuple[bytes, int, bytes] | None = None

    def begin(self, host: str) -> ClientExchange:
        extension = ",tokenauth=true" if self._is_token else ""
        return ScramClientExchange(
            self._hashing, self._user, self.salted_password, secrets.token_hex(_NONCE_BYTES), extension
        )

    def salted_password(self, salt: bytes, iterations: int) -> bytes:
        kept = self._salted
        if kept is None or kept[:2] != (salt, iterations):
            computed = self._hashing.salted_password(self._password, salt, iterations)
            kept = self._salted = (salt, iterations, computed)
        return kept[2]


class ScramClientExchange:
    def __init__(
        self,
        hashing: ScramHash,
        user: str,
        salted_password: Callable[[bytes, int], bytes],
        nonce: str,
        extension: str = "",
    ) -> None:
        self._hashing = hashing
        self._salted_password = salted_password
        self._nonce = nonce
        self._first_bare = f"n={scram.encode_name(user)},r={nonce}{extension}"
        self._expected = b""  # the signature of a broker that knows the password
        self.is_complete = False

    def begin(self) -> Step:
        return (_GS2_HEADER + self._first_bare).encode()

    def respond(self, token: bytes) -> Step | None:
        if not self._expected:
            return self._prove(token)
        if not hmac.compare_digest(scram.parse_server_final(token), self._expected):
            raise LoginError("the broker did not prove that it knows the password")
        self.is_complete = True
        return None

    def _prove(self, token: bytes) -> Step:
        first = scram.parse_server_first(token)
        if not first.nonce.startswith(self._nonce) or len(first.nonce) == len(self._nonce):
            raise LoginError("the broker's nonce does not go on from ours")
        if not scram.MIN_ITERATIONS <= first.iterations <= scram.MAX_CLIENT_ITERATIONS:
            raise LoginError(
                f"the broker asks for {first.iterations} iterations; "
                f"{scram.MIN_ITERATIONS} to {scram.MAX_CLIENT_ITERATIONS} are accepted"
            )

        def prove() -> bytes:
            hashing = self._hashing
            salted = self._salted_password(first.salt, first.iterations)
            without_proof = f"{scram.channel_binding(_GS2_HEADER)},r={first.nonce}"
            signed = scram.auth_message(self._first_bare, token.decode(), without_proof)
            client_key = hashing.client_key(salted)
            signature = hashing.hmac(hashing.hash(client_key), signed)
            self._expected = hashing.hmac(hashing.server_key(salted), signed)
            proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
            return scram.encode_client_final(without_proof, proof)

        return prove
