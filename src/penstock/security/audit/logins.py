"""Logins as events: one place for the words, for every part of the broker that reports one."""

from __future__ import annotations

from penstock.security.audit.events import CLAIMED, AuditEvent, AuditKind, Detail

SASL = "SaslAuthenticate"
TLS = "TlsHandshake"

_MOST_CLAIMED = 64


def login_succeeded(what: str, mechanism: str, principal: str, address: str, *, is_again: bool = False) -> AuditEvent:
    """`is_again`: the client repeats its login on an open connection (KIP-368)."""
    details = {"again": True} if is_again else {}
    return AuditEvent(
        AuditKind.LOGIN,
        what,
        is_allowed=True,
        principal=principal,
        address=address,
        operation=mechanism,
        details=details,
    )


def login_refused(
    what: str, mechanism: str, address: str, reason: str, principal: str = "", claimed: str = ""
) -> AuditEvent:
    """`reason` is one of a few texts of ours, because repeats are merged by it; the client gets less. `principal` is
    the connection's user before. `claimed` is the name that the client gave without proof, perhaps the account under
    attack. It stands in the details, so that no reader takes it for a user who was here.
    """
    details: dict[str, Detail] = {CLAIMED: show_claimed(claimed)} if claimed else {}
    return AuditEvent(
        AuditKind.LOGIN, what, False, principal, address, operation=mechanism, rule=reason, details=details
    )


def show_claimed(name: str) -> str:
    """A foreign name, fit for a line of a log: short, and without control characters."""
    cut = name[:_MOST_CLAIMED]
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
    return shown if len(name) == len(cut) else shown + "…"
