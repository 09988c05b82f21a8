"""Audit events, and the interface by which the broker records them.

A part of the broker makes an `AuditEvent` of what is worth keeping and gives it to the broker's `Auditor`. `record`
returns at once: it never waits, never raises, and is called on the loop. Where making the event costs something, the
caller looks into `kinds` first; `NoAudit` has none.

Never put a password, a salt, a key, a token or the value of a record into an event. The writer redacts the values of
settings that are sensitive by name, as a second fence.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

# The values in `details`: what JSON can hold without loss.
Detail = str | int | bool | None


# The detail of a refused login with the name that the client did not prove.
CLAIMED: Final = "claimed"


class AuditKind(enum.StrEnum):
    """The subject of an event. `penstock.audit.kinds` chooses among these."""

    LOGIN = "login"  # a client logged in, or failed to; also the end of a session by the broker
    DENIAL = "denial"  # the client lacked a right
    CHANGE = "change"  # topics, settings, ACLs, users, quotas, tokens, policies, groups reset or deleted
    READ = "read"  # records were read; merged per minute
    WRITE = "write"  # records were written; merged per minute
    TRAIL = "trail"  # the trail about itself: it began, it ended; always kept


@dataclass(frozen=True, slots=True)
class AuditEvent:
    kind: AuditKind
    # The name of the API, `CreateAcls`, or another word for what happened: `SaslAuthenticate`, `TlsHandshake`.
    what: str
    is_allowed: bool  # for a login: whether it succeeded; for a change: whether it was made
    principal: str = ""  # `User:alice`; empty before the login
    address: str = ""  # without the port
    client_id: str | None = None
    # `Topic:orders`, `Topic:pay*` (prefixed), `Group:g`, `Cluster:kafka-cluster`, `TransactionalId:t`, `User:alice`
    resource: str = ""
    operation: str = ""  # `Write`, `AlterConfigs`, the mechanism of a login
    # Which rule decided, in words: `super user`, `no ACL`, `ACL Allow User:alice Write Topic:orders from *`
    rule: str = ""
    details: Mapping[str, Detail] = field(default_factory=dict)


class Auditor(Protocol):
    @property
    def kinds(self) -> frozenset[AuditKind]:
        """The kinds that are kept; events of others are dropped without a trace."""
        ...

    @property
    def refuses(self) -> bool:
        """Whether to refuse audited requests: the trail is full, and its owner wants no unrecorded action."""
        ...

    def record(self, event: AuditEvent) -> None: ...


class NoAudit:
    """The auditor of a broker that keeps no trail."""

    kinds: Final[frozenset[AuditKind]] = frozenset()
    refuses: Final = False

    def record(self, event: AuditEvent) -> None:
        pass


NO_AUDIT = NoAudit()
