"""What every mechanism has in common: an exchange takes the other side's token and gives the next one.

Rules:
- An exchange performs no I/O and waits for nothing. Where a step takes long (a key set that has to be read, a ticket, a
  password that has to be hashed), the step is a `Slow`: the caller runs it in a thread, and its result is the token.
- A refusal says nothing to the client. Why it was refused is for the broker's own log, without any secret.
- No object here shows a secret in its `repr`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
MECHANISMS = (GSSAPI, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)

# A step that takes long; safe to run in any thread.
Slow = Callable[[], bytes]
Step = bytes | Slow


class LoginError(Exception):
    """The other side is not who it says, or does not keep to the mechanism. The text has no secret in it."""


class Login(NamedTuple):
    """Who has logged in."""

    name: str
    # When what the client showed ends, by the wall clock; None where it does not end.
    expires_ms: int | None = None
    # Of the delegation token that the client showed in place of its own password.
    token_id: str | None = None


class ServerExchange(Protocol):
    """One login, seen by the broker. `login` is there once the client has proved who it is, `claimed` once it has said
    so: the name before any proof, as the client wrote it, or nothing where a mechanism has no such name.
    """

    @property
    def login(self) -> Login | None: ...

    @property
    def claimed(self) -> str: ...

    def respond(self, token: bytes) -> Step:
        """The answer to the client's token. Raises LoginError, and so may a `Slow` step."""


class ServerMechanism(Protocol):
    def begin(self, now_ms: int) -> ServerExchange: ...


class ClientExchange(Protocol):
    """One login, seen by the client. The client speaks first."""

    @property
    def is_complete(self) -> bool: ...

    def begin(self) -> Step: ...

    def respond(self, token: bytes) -> Step | None:
        """The answer to the broker's token; None where nothing is left to say. Raises LoginError."""


class Credentials(Protocol):
    """How a client logs in: its mechanism, and a new exchange for each login."""

    @property
    def mechanism(self) -> str: ...

    def begin(self, host: str) -> ClientExchange:
        """`host` is the broker's, as the client knows it."""
