"""The broker's side of SCRAM.

Rules:
- Where there is no such user, the exchange goes on with a made-up salt and fails at its end: same messages, same work.
  The made-up salt of a name is always the same, so that a second login reveals nothing.
- The client's nonce comes back whole and unchanged (CVE-2024-56128).
- `tokenauth=true`: the user is the id of a delegation token, the password its HMAC, and the login is its owner's.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

from penstock.security.sasl import scram
from penstock.security.sasl.exchange import Login, LoginError, Step
from penstock.security.sasl.scram import ClientFirst, ScramCredential, ScramHash

_TOKEN_EXTENSION = "tokenauth"  # noqa: S105  # a word of the protocol
_NONCE_BYTES = 18
# The length of salts of Kafka's tools: 130 random bits in base 36.
SALT_LENGTH = 26
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class TokenCredential(NamedTuple):
    """A delegation token as SCRAM sees it. `credential` takes milliseconds where it is computed for the first time."""

    owner: str
    expires_ms: int
    credential: Callable[[], ScramCredential]


class ScramUsers(NamedTuple):
    """Where the broker's side finds credentials."""

    find_user: Callable[[str, ScramHash], ScramCredential | None]
    find_token: Callable[[str, ScramHash], TokenCredential | None]


class ScramServer:
    def __init__(
        self, hashing: ScramHash, users: ScramUsers, random_bytes: Callable[[int], bytes], salt_secret: bytes
    ) -> None:
        """`salt_secret` is the seed of made-up salts for unknown users."""
        self.hashing = hashing
        self.users = users
        self.random_bytes = random_bytes
        self._salt_secret = salt_secret

    def begin(self, now_ms: int) -> ScramServerExchange:
        return ScramServerExchange(self, now_ms)

    def fake(self, user: str) -> ScramCredential:
        key = self.hashing.hmac(self._salt_secret, f"{self.hashing.mechanism} {user}".encode())
        return ScramCredential(make_salt(key), key, key, scram.MIN_ITERATIONS)


def make_salt(randomness: bytes) -> bytes:
    """Digits and letters, like the salts of Kafka's tools."""
    number = int.from_bytes(randomness, "big")
    salt = bytearray()
    for _ in range(SALT_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        salt.append(_DIGITS[digit])
    return bytes(salt)


class ScramServerExchange:
    """Two tokens of the client: its first message, then its proof."""

    __slots__ = ("_credential", "_first", "_is_known", "_login", "_now_ms", "_server", "_server_first", "login")

    def __init__(self, server: ScramServer, now_ms: int) -> None:
        self._server = server
        self._now_ms = now_ms
        self._first: ClientFirst | None = None
        self._server_first: scram.ServerFirst | None = None
        self._credential: ScramCredential | None = None
        self._login: Login | None = None  # the login, if the proof is right
        self._is_known = False
        self.login: Login | None = None

    @property
    def claimed(self) -> str:
        """The user name; with a delegation token the token's id, which is no secret."""
        return "" if self._first is None else self._first.user

    def respond(self, token: bytes) -> Step:
        if self.login is not None:
            raise LoginError("a token after the end of the login")
        return self._finish(token) if self._first is not None else self._start(token)

    def _start(self, token: bytes) -> Step:
        first = self._first = scram.parse_client_first(token)
        if first.authorization_id not in ("", first.user):
            raise LoginError("the authorisation id is another user's")
        if first.extensions.get(_TOKEN_EXTENSION) == "true":
            found = self._server.users.find_token(first.user, self._server.hashing)
            if found is not None and found.expires_ms > self._now_ms:
                self._login = Login(found.owner, found.expires_ms, first.user)
                return lambda: self._challenge(first, found.credential())
            return self._challenge(first, None)
        self._login = Login(first.user)
        return self._challenge(first, self._server.users.find_user(first.user, self._server.hashing))

    def _challenge(self, first: ClientFirst, credential: ScramCredential | None) -> bytes:
        self._is_known = credential is not None
        made_up = self._server.fake(first.user)  # also for a known user: the time would tell them apart
        self._credential = credential or made_up
        own_nonce = self._server.random_bytes(_NONCE_BYTES).hex()
        self._server_first = scram.ServerFirst(
            first.nonce + own_nonce, self._credential.salt, self._credential.iterations
        )
        return str(self._server_first).encode()

    def _finish(self, token: bytes) -> bytes:
        first, server_first, credential = self._first, self._server_first, self._credential
        assert first is not None
        if server_first is None or credential is None:
            raise LoginError("a token before the answer to the first one")
        final = scram.parse_client_final(token)
        hashing = self._server.hashing
        signed = scram.auth_message(first.bare, str(server_first), final.without_proof)
        client_signature = hashing.hmac(credential.stored_key, signed)
        if len(final.proof) != len(client_signature):
            raise LoginError("the proof has the wrong size")
        client_key = bytes(a ^ b for a, b in zip(client_signature, final.proof, strict=True))
        is_right = hmac.compare_digest(hashing.hash(client_key), credential.stored_key)
        is_same_nonce = hmac.compare_digest(final.nonce.encode(), server_first.nonce.encode())
        if not is_same_nonce or final.channel_binding != first.gs2_header.encode():
            raise LoginError("the nonce or the header is not that of the first message")
        if not is_right or not self._is_known:
            raise LoginError("wrong user or password")
        self.login = self._login
        return scram.encode_server_final(hashing.hmac(credential.server_key, signed))
