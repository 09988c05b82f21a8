"""Checks the caller's rights, refuses, and reports to the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.registry.api.rights import Right, SubjectAccessDecision, SubjectRights
from penstock.registry.errors import RegistryError
from penstock.security.audit.events import NO_AUDIT, AuditEvent, AuditKind, Auditor, Detail


class Caller(NamedTuple):
    principal: str  # empty without logins
    address: str


class Access:
    """Without rules every caller may do everything; that is for a listener without logins, or with users of equal
    trust.
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
        """For lists, which silently leave out subjects that the caller may not see."""
        return self._decide(caller, right, subject).is_allowed

    def check(self, caller: Caller, right: Right, subject: str, what: str) -> None:
        """Raises 40301, and reports it; `what` is the operation."""
        decision = self._decide(caller, right, subject)
        if not decision.is_allowed:
            self.refuse(caller, right, subject, what, decision.rule)

    def refuse(self, caller: Caller, right: Right, subject: str, what: str, rule: str) -> None:
        if AuditKind.DENIAL in self._auditor.kinds:
            self._auditor.record(
                AuditEvent(
                    AuditKind.DENIAL,
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
        """Raises 503 where the audit trail could not keep a change, and its owner allows no unseen change."""
        if self._auditor.refuses and AuditKind.CHANGE in self._auditor.kinds:
            raise RegistryError(503, "The audit trail is full, so nothing is changed that it must keep")

    def report(
        self,
        caller: Caller,
        right: Right,
        subject: str,
        what: str,
        details: Mapping[str, Detail],
    ) -> None:
        """Reports a change that was made, or may have been, to the trail."""
        if AuditKind.CHANGE not in self._auditor.kinds:
            return
        self._auditor.record(
            AuditEvent(
                AuditKind.CHANGE,
                what,
                is_allowed=True,
                principal=caller.principal,
                address=caller.address,
                resource=_resource(right, subject),
                operation=right.value,
                details=dict(details),
            )
        )

    def _decide(self, caller: Caller, right: Right, subject: str) -> SubjectAccessDecision:
        if self._rights is None:
            return SubjectAccessDecision(True, "no rights are kept")
        if not caller.principal:
            return SubjectAccessDecision(False, "nobody has logged in")
        return self._rights.decide(caller.principal, caller.address, right, subject)


def _resource(right: Right, subject: str) -> str:
    return "Registry:registry" if right is Right.ADMIN else f"Subject:{subject}"
