"""Decides an access as Kafka's StandardAuthorizer does, and names the rule that decided.

Rules, the first that applies:
1. A super user may do everything.
2. A policy that denies a tag of the topic refuses (see `penstock.security.policies`).
3. An ACL with DENY refuses.
4. An ACL or a policy that allows it allows it.
5. A resource without any ACL at all is open where `allow.everyone.if.no.acl.found` says so.
6. Everything else is refused.

An ACL applies when its pattern matches the name (the same name, `*`, or a prefix), when its principal is that of the
client or `User:*`, when its host is the client's address or `*`, and when its operation is the wanted one or ALL. In an
ALLOW, and there alone, READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from penstock.security.acls.index import AclIndex, Asked
from penstock.security.acls.types import Operation, ResourceType, camel_case
from penstock.security.policies.policy import PolicyIndex


class Reason(enum.Enum):
    SUPER_USER = "super user"
    POLICY = "policy"
    ACL = "ACL"
    # The resource has no ACL, and `allow.everyone.if.no.acl.found` decides.
    NO_ACL = "no ACL"
    # The resource has ACLs, and none of them is about this access.
    NO_MATCHING_ACL = "no matching ACL"


class AccessDecision(NamedTuple):
    is_allowed: bool
    reason: Reason
    rule: str  # in words, for people and for the audit trail
    # At this time the decision may change, because a policy begins or ends; None where time plays no part.
    valid_until_ms: int | None = None


_SUPER_USER = AccessDecision(True, Reason.SUPER_USER, Reason.SUPER_USER.value)
_OPEN = AccessDecision(True, Reason.NO_ACL, "no ACL, and allow.everyone.if.no.acl.found is true")
_CLOSED = AccessDecision(False, Reason.NO_ACL, Reason.NO_ACL.value)
_NO_MATCH = AccessDecision(False, Reason.NO_MATCHING_ACL, Reason.NO_MATCHING_ACL.value)

# A name that stands for any resource of a type, as in Kafka: a super user may do everything, whatever names are denied.
_ANY_NAME = "hardcode"


class Rules(NamedTuple):
    """The inputs of all decisions, for one state of the metadata."""

    acls: AclIndex
    policies: PolicyIndex = PolicyIndex()
    super_users: frozenset[str] = frozenset()  # `User:admin`
    is_open_without_acls: bool = False

    def decide(self, asked: Asked, tags: Iterable[str] = (), now_ms: int = 0) -> AccessDecision:
        """`tags` are the topic's, where the resource is a topic.

        Costs about 10 us with 10,000 ACLs: one look into a dictionary for each length of a prefix that exists. Measured
        by `python -m bench.acls`.
        """
        if asked.principal in self.super_users:
            return _SUPER_USER
        denying, allowing, valid_until_ms = self.policies.find(asked, tags, now_ms) if tags else (None, None, None)
        if denying is not None:
            return AccessDecision(False, Reason.POLICY, str(denying), valid_until_ms)
        acl, has_acls = self.acls.find(asked)
        if acl is not None and (acl.is_deny or allowing is None):
            return AccessDecision(not acl.is_deny, Reason.ACL, str(acl), valid_until_ms)
        if allowing is not None:
            return AccessDecision(True, Reason.POLICY, str(allowing), valid_until_ms)
        if has_acls:
            return _NO_MATCH._replace(valid_until_ms=valid_until_ms)
        return (_OPEN if self.is_open_without_acls else _CLOSED)._replace(valid_until_ms=valid_until_ms)

    def decide_anywhere(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, now_ms: int = 0
    ) -> AccessDecision:
        """Whether there may be a resource of this type on which the operation is allowed (KIP-679).

        A DENY of all names refuses. An ALLOW counts unless a DENY covers all that it allows. Nothing is implied here: a
        producer needs WRITE.
        """
        asked = Asked(principal, host, operation, kind, _ANY_NAME)
        decision = self.decide(asked)
        if decision.is_allowed:
            return decision
        allowing, denying = self.acls.find_anywhere(asked)
        if denying is not None:
            return AccessDecision(False, Reason.ACL, str(denying))
        if allowing is not None:
            return AccessDecision(True, Reason.ACL, str(allowing))
        policy = self.policies.find_allowing(asked, now_ms) if kind is ResourceType.TOPIC else None
        if policy is not None:
            return AccessDecision(True, Reason.POLICY, str(policy))
        return _NO_MATCH._replace(rule=f"no ACL allows {camel_case(operation)} on any {camel_case(kind)}")


def is_principal(text: str) -> bool:
    kind, colon, name = text.partition(":")
    return bool(kind and colon and name)
