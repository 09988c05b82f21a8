"""Authenticates the caller: by a password (RFC 7617), by a token (RFC 6750), or by the certificate of the connection.

An `Authenticator` checks one request. It may wait, for a thread or for another server, and fails closed: an exception
is a refusal. Secrets are compared by their digests, in a time that does not depend on them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.client.security import ClientSecurity

# The principal of a name and a password, or of a token; None for wrong ones.
CheckPassword = Callable[[str, str], Awaitable[str | None]]
CheckToken = Callable[[str], Awaitable[str | None]]

_BASIC, _BEARER = "basic", "bearer"
# A name and a password of 32,767 characters each would not fit into the headers.
_MOST_CHARACTERS = 8_192


class Credentials(NamedTuple):
    """The credentials in a request."""

    authorization: str | None
    peer_certificate: bytes | None = None  # DER; the handshake has verified it
    scheme: str = ""
    value: str = ""
    address: str = ""  # of the client

    def __repr__(self) -> str:  # never the secret
        return f"Credentials({self.scheme})"

    @classmethod
    def of(cls, headers: Sequence[str], peer_certificate: bytes | None, address: str = "") -> Credentials:
        """`headers` are the values of all Authorization headers. More than one counts as none, because it is unclear
        which counts.
        """
        if len(headers) != 1 or len(headers[0]) > _MOST_CHARACTERS:
            return cls(None, peer_certificate, address=address)
        scheme, _, value = headers[0].strip().partition(" ")
        return cls(headers[0], peer_certificate, scheme.lower(), value.strip(), address)


class Caller(NamedTuple):
    """The caller, and the credentials for brokers on the caller's behalf."""

    principal: str  # as `User:alice`
    # A keyed digest of the caller's credentials: the same for the same credentials. Empty where the service itself
    # vouches for the principal.
    key: bytes = b""
    # The caller's own login at the brokers. None where the caller's credentials cannot be passed on, such as a
    # certificate.
    security: ClientSecurity | None = None
    # Authenticated by the certificate of the connection, whatever other credentials the caller has sent: the
    # certificate cannot be passed on to another server.
    is_certified: bool = False

    def __repr__(self) -> str:  # neither digest nor login
        return f"Caller({self.principal})"


class LoginUnavailableError(Exception):
    """The caller cannot be authenticated now. The text is for the client, and the client may try again."""


class NotEntitledError(Exception):
    """The caller is authenticated but not authorised."""

    def __init__(self, principal: str) -> None:
        super().__init__(principal)
        self.principal = principal


class Authenticator(Protocol):
    @property
    def challenges(self) -> tuple[str, ...]:
        """For WWW-Authenticate."""
        ...

    async def authenticate(self, credentials: Credentials) -> Caller | str | None:
        """The caller, or the principal alone, as `User:alice`; None where these credentials are missing, wrong or for
        another scheme. Raises NotEntitledError and LoginUnavailableError.
        """
        ...


class BasicAuthenticator:
    challenges = ('Basic realm="penstock", charset="UTF-8"',)

    def __init__(self, check: CheckPassword) -> None:
        self._check = check

    async def authenticate(self, credentials: Credentials) -> str | None:
        read = read_basic(credentials)
        return None if read is None else await self._check(*read)


def read_basic(credentials: Credentials) -> tuple[str, str] | None:
    """The name and the password from a client; None where they are missing or unreadable."""
    if credentials.scheme != _BASIC:
        return None
    try:
        text = base64.b64decode(credentials.value, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon and name else None


class BearerAuthenticator:
    challenges = ('Bearer realm="penstock"',)

    def __init__(self, check: CheckToken) -> None:
        self._check = check

    async def authenticate(self, credentials: Credentials) -> str | None:
        if credentials.scheme != _BEARER or not credentials.value:
            return None
        return await self._check(credentials.value)


class CertificateAuthenticator:
    """For a listener whose TLS asks for certificates of clients: the connection has verified it."""

    challenges = ()

    def __init__(self, name: Callable[[bytes], str | None]) -> None:
        self._name = name

    async def authenticate(self, credentials: Credentials) -> Caller | None:
        certificate = credentials.peer_certificate
        name = None if certificate is None else self._name(certificate)
        return None if name is None else Caller(name, is_certified=True)


class Entitled:
    """The callers of another authenticator, as far as they `may`: a principal, from an address."""

    def __init__(self, authenticator: Authenticator, may: Callable[[str, str], bool]) -> None:
        self._authenticator = authenticator
        self._may = may
        self.challenges = authenticator.challenges

    async def authenticate(self, credentials: Credentials) -> Caller | None:
        caller = as_caller(await self._authenticator.authenticate(credentials))
        if caller is not None and not self._may(caller.principal, credentials.address):
            raise NotEntitledError(caller.principal)
        return caller


class AnyOf:
    """The first authenticator that accepts the credentials."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)
        self.challenges = tuple(dict.fromkeys(each for one in self._authenticators for each in one.challenges))

    async def authenticate(self, credentials: Credentials) -> Caller | None:
        for each in self._authenticators:
            caller = as_caller(await each.authenticate(credentials))
            if caller is not None:
                return caller
        return None


def as_caller(found: Caller | str | None) -> Caller | None:
    return Caller(found) if isinstance(found, str) else found


class Passwords:
    """Names and passwords from a setting; keeps digests alone."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {name: _digest(password) for name, password in passwords.items()}
        self._nobody = _digest("")

    async def check(self, name: str, password: str) -> str | None:
        known = self._digests.get(name)
        is_right = hmac.compare_digest(known or self._nobody, _digest(password))
        return f"User:{name}" if is_right and known is not None else None


class Tokens:
    """Tokens from a setting, each with the name of its owner."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        """By owner."""
        self._digests = {name: _digest(token) for name, token in tokens.items()}

    async def check(self, token: str) -> str | None:
        given, found = _digest(token), None
        for name, digest in self._digests.items():  # all of them, so that the time does not reveal which
            if hmac.compare_digest(digest, given):
                found = f"User:{name}"
        return found


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def parse_pairs(text: str) -> dict[str, str]:
    """`name:secret,name:secret`, of a setting. Raises ValueError, without a secret in its text."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, secret = part.partition(":")
        if not colon or not name or not secret:
            raise ValueError("expected NAME:SECRET,NAME:SECRET")
        pairs[name] = secret
    return pairs
