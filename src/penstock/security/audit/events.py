"""What the audit trail is told, and by which interface.

A part of the broker that knows of something worth keeping makes an `AuditEvent` and gives it to the `Auditor` of the
broker. `record` returns at once: it never waits, never raises, and is called on the loop. Who reports asks `kinds`
first where making the event costs something; with `NoAudit` it is empty.

Never put a password, a salt, a key, a token or the value of a record into an event. The writer redacts the values of
settings that are sensitive by name, as a second fence.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

# What `details` may hold: what JSON can say without losing anything.
Detail = str | int | bool | None


# The detail of a refused login that is a name without proof.
CLAIMED: Final = "claimed"


class AuditKind(enum.StrEnum):
    """What an event is about. `penstock.audit.kinds` chooses among these."""

    LOGIN = "login"  # somebody proved who they are, or failed to; also the end of a session by the broker
    DENIAL = "denial"  # a right was missing
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
    principal: str = ""  # `User:alice`; empty where nobody is known yet
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
        """Whether what would be audited must be refused: the trail is full, and its owner wants nothing done unseen."""
        ...

    def record(self, event: AuditEvent) -> None: ...


class NoAudit:
    """The auditor of a broker that keeps no trail."""

    kinds: Final[frozenset[AuditKind]] = frozenset()
    refuses: Final = False

    def record(self, event: AuditEvent) -> None:
        pass


NO_AUDIT = NoAudit()
