"""The interface of every mechanism: an exchange takes the other side's token and returns the next one.

Rules:
- An exchange performs no I/O and waits for nothing. A step that takes long (reading a key set, a ticket, hashing a
  password) is a `Slow`: the caller runs it in a thread, and its result is the token.
- A refusal gives the client no reason. The reason goes to the broker's own log, without any secret.
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
    """The other side cannot prove its name, or does not keep to the mechanism. The text has no secret in it."""


class NothingToLogInWithError(LoginError):
    """This side has no token for now: its issuer is out of reach, or in trouble. The next login may have one."""


class Login(NamedTuple):
    """The user of a successful login."""

    name: str
    # When the client's ticket or token ends, by the wall clock; None where it does not end.
    expires_ms: int | None = None
    # Of the delegation token that the client used in place of its own password.
    token_id: str | None = None


class ServerExchange(Protocol):
    """One login, seen by the broker. `login` is set once the client has proved its name. `claimed` is the name before
    any proof, as the client wrote it; empty before the client has sent it, and where a mechanism has no such name.
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
        """The answer to the broker's token; None where the client has nothing left to send. Raises LoginError."""


class Credentials(Protocol):
    """How a client logs in: its mechanism, and a new exchange for each login."""

    @property
    def mechanism(self) -> str: ...

    def begin(self, host: str) -> ClientExchange:
        """`host` is the broker's, as the client knows it."""
