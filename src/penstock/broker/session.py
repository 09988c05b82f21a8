"""The client at the other end of a connection, and the context of one request."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.log.state.refused_writes import RefusedWrites
from penstock.protocol.message import Chunk
from penstock.security.sasl.login_state import LoginState

# The chunks of a reply, which begin with the frame's size, or nothing (acks=0).
Reply = list[Chunk] | None

Waited = TypeVar("Waited")


class Settling(Generic[Waited]):
    """An answer for completed work: the answer waits for replicas or for the disk. Further writes of the same client
    need not wait for the answer.
    """

    __slots__ = ("reply",)

    def __init__(self, reply: Awaitable[Waited]) -> None:
        self.reply = reply

    def __await__(self) -> Generator[Any, Any, Waited]:
        return self.reply.__await__()


class Throttled:
    """A reply for a client that has exceeded its quota. The reply goes out at once; then the broker does not read the
    client's connection for a while (KIP-219).
    """

    __slots__ = ("reply", "throttle_ms")

    def __init__(self, reply: Reply, throttle_ms: int) -> None:
        self.reply = reply
        self.throttle_ms = throttle_ms


# The action of a connection for a request.
Outcome = Reply | Throttled


# Clients name themselves, in up to 32,767 characters; a log line needs a few.
_SHOWN_CHARACTERS = 50


def shorten(name: str) -> str:
    """Shortens a client's own name for a log line."""
    return name[:_SHOWN_CHARACTERS]


class UnanswerableError(Exception):
    """The client would understand no answer.

    The message has the reason, for the log; `kind` is one of a few words of ours, for the metric's label. Where there
    is a `reply`, the client gets it before the connection ends.
    """

    def __init__(self, kind: str, message: str, reply: Reply = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.reply = reply


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


@dataclass(slots=True)
class Session:
    connection_id: str
    client_host: str
    listener: str
    principal: Principal = ANONYMOUS
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    # The request came in an envelope of another broker, which took it from the client.
    is_forwarded: bool = False
    # The principal that forwarded the request, where it is not known to be a broker on the listener of brokers: a super
    # user may choose the principal of a request.
    passed_on_by: str = ""
    # The login on a listener with SASL; None before the first frame, and on other listeners.
    login: LoginState | None = None
    # A login was refused, and the broker reads nothing more until the client has the answer.
    is_refused: bool = False
    # The size limit of frames at the moment; 0 is the listener's own limit.
    max_frame_size: int = 0
    # The refused batches of idempotent producers on this connection; None as long as there are none.
    refused_writes: RefusedWrites | None = None

    def __str__(self) -> str:
        return f"{self.connection_id} ({self.principal}, {shorten(self.client_software_name)})"


class RequestContext(NamedTuple):
    session: Session
    api_key: int
    api_version: int
    client_id: str | None

    @property
    def principal(self) -> Principal:
        return self.session.principal

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def client_host(self) -> str:
        return self.session.client_host

    @property
    def client(self) -> str:
        """The key for per-client counts that need a bound: a user at an address. Without logins all clients have the
        same name.
        """
        return f"{self.session.principal}@{self.session.client_host}"
