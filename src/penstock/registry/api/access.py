"""Rights at work: who asks, what is refused, and what the audit trail is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.registry.api.rights import Decision, Right, SubjectRights
from penstock.registry.errors import RegistryError
from penstock.security.audit.events import NO_AUDIT, AuditEvent, Auditor, Detail, Kind


class Caller(NamedTuple):
    principal: str  # empty without logins
    address: str


class Access:
    """Without rights everybody may do everything; that is for a listener without logins, or one whose users are all
    trusted alike.
    """

    def __init__(self, rights: SubjectRights | None = None, auditor: Auditor = NO_AUDIT) -> None:
        self._rights = rights
        self._auditor = auditor

    @property
    def is_limited(self) -> bool:
        return self._rights is not None

    def replace(self, rights: SubjectRights) -> None:
        """The rules of a file that was read again."""
        self._rights = rights

    def may(self, caller: Caller, right: Right, subject: str) -> bool:
        """For lists, which leave out what somebody may not see without a word."""
        return self._decide(caller, right, subject).is_allowed

    def check(self, caller: Caller, right: Right, subject: str, what: str) -> None:
        """Raises 40301, and reports it; `what` is the operation."""
        decision = self._decide(caller, right, subject)
        if not decision.is_allowed:
            self.refuse(caller, right, subject, what, decision.rule)

    def refuse(self, caller: Caller, right: Right, subject: str, what: str, rule: str) -> None:
        if Kind.DENIAL in self._auditor.kinds:
            self._auditor.record(
                AuditEvent(
                    Kind.DENIAL,
                    what,
                    is_allowed=False,
                    principal=caller.principal,
                    address=caller.address,
                    resource=_resource(right, subject),
                    operation=right.value,
                    rule=rule,
                )
            )
        place = "this registry" if right is Right.ADMIN else f"Subject: {subject}"
        raise RegistryError(40301, f"User is denied operation {right} on {place}")

    def check_trail(self) -> None:
        """Raises 503 where a change could not be kept in the audit trail, and its owner wants none unseen."""
        if self._auditor.refuses and Kind.CHANGE in self._auditor.kinds:
            raise RegistryError(503, "The audit trail is full, so nothing is changed that it must keep")

    def report(
        self,
        caller: Caller,
        right: Right,
        subject: str,
        what: str,
        details: Mapping[str, Detail],
    ) -> None:
        """Tells the trail of a change that was made, or may have been."""
        if Kind.CHANGE not in self._auditor.kinds:
            return
        self._auditor.record(
            AuditEvent(
                Kind.CHANGE,
                what,
                is_allowed=True,
                principal=caller.principal,
                address=caller.address,
                resource=_resource(right, subject),
                operation=right.value,
                details=dict(details),
            )
        )

    def _decide(self, caller: Caller, right: Right, subject: str) -> Decision:
        if self._rights is None:
            return Decision(True, "no rights are kept")
        if not caller.principal:
            return Decision(False, "nobody has logged in")
        return self._rights.decide(caller.principal, caller.address, right, subject)


def _resource(right: Right, subject: str) -> str:
    return "Registry:registry" if right is Right.ADMIN else f"Subject:{subject}"
