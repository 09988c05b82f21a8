"""Logins as events: one place for the words, whoever reports them."""

from __future__ import annotations

from penstock.security.audit.events import AuditEvent, Kind

SASL = "SaslAuthenticate"
TLS = "TlsHandshake"


def login_succeeded(what: str, mechanism: str, principal: str, address: str, *, is_again: bool = False) -> AuditEvent:
    """`is_again` is a client that proves anew who it is (KIP-368)."""
    details = {"again": True} if is_again else {}
    return AuditEvent(
        Kind.LOGIN, what, is_allowed=True, principal=principal, address=address, operation=mechanism, details=details
    )


def login_refused(what: str, mechanism: str, address: str, reason: str, principal: str = "") -> AuditEvent:
    """`reason` is one of a few texts of ours, because repeats are merged by it; the client is told less. `principal` is
    who was known on the connection before, and never a name that somebody claimed without proof.
    """
    return AuditEvent(
        Kind.LOGIN, what, is_allowed=False, principal=principal, address=address, operation=mechanism, rule=reason
    )
