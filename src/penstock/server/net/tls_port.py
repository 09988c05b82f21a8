"""What a connection with TLS needs of its listener, and the words for handshakes that failed."""

from __future__ import annotations

import ssl
from typing import NamedTuple, Protocol

from penstock.broker.session import Principal
from penstock.security.tls.contexts import ServerTls
from penstock.security.tls.der import CertificateFacts, DerError, read_certificate
from penstock.security.tls.distinguished_names import format_name
from penstock.security.tls.principal_rules import map_name
from penstock.server.net.connection import Connection, Listener
from penstock.server.net.handshakes import Handshakes

USER = "User"

# By the beginning or the end of OpenSSL's reason. What is in none of them is "protocol".
_KINDS = (
    ("certificate", ("CERTIFICATE_VERIFY_FAILED", "PEER_DID_NOT_RETURN_A_CERTIFICATE", "NO_CERTIFICATE")),
    ("version", ("UNSUPPORTED_PROTOCOL", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "VERSION_TOO_LOW")),
    ("cipher", ("NO_SHARED_CIPHER", "NO_SUITABLE_KEY_SHARE", "NO_SUITABLE_SIGNATURE_ALGORITHM")),
    ("refused by client", ("ALERT",)),
)


class Refusal(NamedTuple):
    """Of a client whose handshake is over. `kind` is one of a few words of ours, for the metric's label."""

    kind: str
    reason: str


class TlsPort(Listener, Protocol):
    """`tls` may be replaced at any time; a handshake keeps the one that it began with."""

    encrypted_buffer: memoryview

    @property
    def tls(self) -> ServerTls: ...

    @property
    def handshakes(self) -> Handshakes: ...

    def identify(self, connection: Connection, established: ssl.SSLObject) -> Refusal | None: ...

    def handshake_failed(self, connection: Connection, kind: str, reason: str) -> None: ...


def failure_kind(error: Exception) -> str:
    reason = getattr(error, "reason", None) or ""
    for kind, words in _KINDS:
        if any(word in reason for word in words):
            return kind
    return "protocol"


def failure_reason(error: Exception) -> str:
    """In OpenSSL's words. Of a certificate that was refused, what is wrong with it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return getattr(error, "reason", None) or str(error)


class NoPrincipalError(Exception):
    """The client's certificate is valid, and gives no principal."""


def certificate_of(established: ssl.SSLObject) -> CertificateFacts | None:
    """The certificate that the client has shown; None where it has shown none. Raises NoPrincipalError."""
    der = established.getpeercert(binary_form=True)
    if der is None:
        return None
    try:
        return read_certificate(der)
    except DerError as error:
        raise NoPrincipalError(f"the client's certificate cannot be read: {error}") from error


def is_revoked(certificate: CertificateFacts, tls: ServerTls) -> bool:
    return (certificate.issuer_der, certificate.serial) in tls.revoked


def principal_of(certificate: CertificateFacts, tls: ServerTls) -> Principal:
    """Who the certificate says that the client is. Raises NoPrincipalError."""
    user = map_name(tls.rules, format_name(certificate.subject))
    if user is None:
        raise NoPrincipalError("no rule of ssl.principal.mapping.rules matches the name in the client's certificate")
    return Principal(USER, user)
