"""GSSAPI (RFC 4752): Kerberos tickets. Needs the extra `penstock[gssapi]`.

Tokens go to and fro until both sides know each other. Then the client sends an empty token, the broker offers no
protection of messages (TLS does that), the client takes it and may name an authorisation id. The ticket alone names
the user: as with Kafka's broker the id changes nothing, and clients in Python name the broker's own service there.
Keytabs, ticket caches and replay caches are files, so every step runs in a thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from penstock.core.config.types import ConfigError
from penstock.core.extras import explained
from penstock.security.sasl.exchange import GSSAPI, ClientExchange, Login, LoginError, Step
from penstock.security.sasl.kerberos_names import KerberosNames, NoRuleError

# One byte of security layers, of which 1 is none, and three bytes of a buffer's size, which is then 0.
_NO_LAYER = bytes((1, 0, 0, 0))
# Why Kerberos refuses a ticket, by the numbers of RFC 4120, section 7.5.9. The library's own texts have names in them
# that a client can invent.
_CAUSES = {
    31: "its key is not the keytab's",
    32: "it has expired",
    33: "it is not valid yet",
    34: "it was shown before",
    35: "it is for another service",
    37: "the clocks of client and broker differ",
    44: "the keytab is out of date",
}
_FIRST_CODE = 2**32 - 1_765_328_384  # the library's first code


def load_gssapi() -> Any:
    """Raises ConfigError where the library is not installed."""
    try:
        import gssapi
    except ModuleNotFoundError as error:
        raise ConfigError(str(explained(error, "the mechanism GSSAPI"))) from None
    except ImportError as error:
        raise ConfigError(f"GSSAPI needs Kerberos' libraries: {error}") from None
    return gssapi


class _State(enum.Enum):
    TICKETS = enum.auto()
    OFFER = enum.auto()
    CHOICE = enum.auto()
    DONE = enum.auto()


class GssapiServer:
    def __init__(self, principal: str, keytab: str | None, names: KerberosNames) -> None:
        self._gssapi = load_gssapi()
        self._principal = principal
        self._keytab = keytab
        self._names = names

    def begin(self, now_ms: int) -> GssapiServerExchange:
        return GssapiServerExchange(self._gssapi, self._accept, self._names)

    def _accept(self) -> Any:
        gssapi = self._gssapi
        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        store = None if self._keytab is None else {"keytab": self._keytab}
        return gssapi.SecurityContext(creds=gssapi.Credentials(name=name, usage="accept", store=store), usage="accept")


class GssapiServerExchange:
    __slots__ = ("_context", "_errors", "_names", "_open", "_state", "login")
    claimed = ""  # a ticket shows no name before it is opened

    def __init__(self, gssapi: Any, open_context: Callable[[], Any], names: KerberosNames) -> None:
        self._open = open_context
        self._names = names
        self._errors = gssapi.exceptions.GSSError
        self._context: Any = None
        self._state = _State.TICKETS
        self.login: Login | None = None

    def respond(self, token: bytes) -> Step:
        return lambda: self._respond(token)

    def _respond(self, token: bytes) -> bytes:
        try:
            if self._state is _State.TICKETS:
                return self._take_ticket(token)
            if self._state is _State.OFFER:
                return self._offer()
            if self._state is _State.CHOICE:
                return self._take_choice(token)
        except self._errors as error:
            raise LoginError(f"Kerberos refuses the ticket: {_cause(error)}") from None
        raise LoginError("a token after the end of the login")

    def _take_ticket(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = self._open()
        answer = bytes(self._context.step(token) or b"")
        if self._context.complete:
            self._state = _State.OFFER
            if not answer:
                return self._offer()
        return answer

    def _offer(self) -> bytes:
        self._state = _State.CHOICE
        return bytes(self._context.wrap(_NO_LAYER, False).message)

    def _take_choice(self, token: bytes) -> bytes:
        choice = bytes(self._context.unwrap(token).message)
        if len(choice) < len(_NO_LAYER) or choice[0] != _NO_LAYER[0]:
            raise LoginError("the client wants a security layer, and none was offered")
        try:
            user = self._names.user(str(self._context.initiator_name))
        except NoRuleError as error:
            raise LoginError(str(error)) from None
        self._state = _State.DONE
        self.login = Login(user)
        return b""


class GssapiCredentials:
    mechanism = GSSAPI

    def __init__(self, service: str, principal: str | None, keytab: str | None) -> None:
        """Without a keytab the tickets of the process's own cache are used (`kinit`). Tickets from a keytab are kept in
        memory and renewed from there: the cache on disk may hold those of another user.
        """
        self._gssapi = load_gssapi()
        self._service = service
        self._principal = principal
        self._keytab = keytab

    def begin(self, host: str) -> ClientExchange:
        return GssapiClientExchange(self._gssapi, lambda: self._open(host))

    def _open(self, host: str) -> Any:
        gssapi = self._gssapi
        target = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
        name = None
        if self._principal is not None:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        store = None
        if self._keytab is not None:
            store = {"client_keytab": self._keytab, "ccache": f"MEMORY:{self._principal} {self._keytab}"}
        credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
        return gssapi.SecurityContext(name=target, creds=credentials, usage="initiate")


class GssapiClientExchange:
    def __init__(self, gssapi: Any, open_context: Callable[[], Any]) -> None:
        self._errors = gssapi.exceptions.GSSError
        self._open = open_context
        self._context: Any = None
        self._state = _State.TICKETS
        self.is_complete = False

    def begin(self) -> Step:
        return lambda: self._step(b"")

    def respond(self, token: bytes) -> Step | None:
        if self._state is _State.DONE:
            self.is_complete = True
            return None
        return lambda: self._step(token)

    def _step(self, token: bytes) -> bytes:
        try:
            if self._state is _State.TICKETS:
                if self._context is None:
                    self._context = self._open()
                answer = bytes(self._context.step(token or None) or b"")
                if self._context.complete:
                    self._state = _State.OFFER
                return answer
            offered = bytes(self._context.unwrap(token).message)
            if not offered or not offered[0] & _NO_LAYER[0]:
                raise LoginError("the broker insists on a security layer")
            self._state = _State.DONE
            return bytes(self._context.wrap(_NO_LAYER, False).message)
        except self._errors as error:
            raise LoginError(f"Kerberos: {error}") from None


def _cause(error: Any) -> str:
    number = error.min_code - _FIRST_CODE
    return _CAUSES.get(number, f"{type(error).__name__} {number}")
