"""Rights on subjects: a file of rules, decided as the broker decides about its ACLs.

The file is JSON:

    {
      "superUsers": ["User:admin"],
      "rules": [
        {"principal": "User:alice", "permission": "allow", "operations": ["READ", "WRITE"],
         "subject": "orders-", "pattern": "prefixed"},
        {"principal": "User:*", "permission": "allow", "operations": ["READ"], "subject": "*"},
        {"principal": "User:ops", "permission": "allow", "operations": ["ADMIN"]}
      ]
    }

Rules:
- A deny rule has precedence over all allow rules, however exactly they name the subject. An operation that no rule
  allows is denied.
- `subject` is one name, or with the pattern `prefixed` the beginning of names; `*` is every subject. A subject outside
  of the default context has its context in front: `:.context:name`.
- `User:*` is every caller that has logged in. Super users may do everything.
- WRITE_CONFIG allows READ_CONFIG, too. ALL is everything but ADMIN.
- ADMIN covers the operations on all subjects: the global config and mode, and contexts. It names no subject.
- To read a schema by its id or guid, a caller needs READ on one of the subjects that have it.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from penstock.core.config.types import ConfigError
from penstock.security.acls.index import AclIndex, Asked
from penstock.security.acls.types import (
    CLUSTER_NAME,
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from penstock.security.rules import Rules, is_principal


class Right(enum.StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    DELETE = "DELETE"
    READ_CONFIG = "READ_CONFIG"
    WRITE_CONFIG = "WRITE_CONFIG"
    ALL = "ALL"
    ADMIN = "ADMIN"


# The words of ACLs, about which the same code decides.
_OPERATIONS = {
    Right.READ: Operation.READ,
    Right.WRITE: Operation.WRITE,
    Right.DELETE: Operation.DELETE,
    Right.READ_CONFIG: Operation.DESCRIBE_CONFIGS,
    Right.WRITE_CONFIG: Operation.ALTER_CONFIGS,
    Right.ALL: Operation.ALL,
    Right.ADMIN: Operation.ALTER,
}
_SUBJECT, _REGISTRY = ResourceType.TOPIC, ResourceType.CLUSTER
# A file of a hundred thousand rules has some 10 MB.
_MOST_BYTES = 16 << 20


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    principal: str
    permission: Literal["allow", "deny"]
    operations: list[Right]
    subject: str | None = None
    pattern: Literal["literal", "prefixed"] = "literal"


class _File(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    rules: list[_Rule] = []
    super_users: list[str] = []


class SubjectAccessDecision(NamedTuple):
    is_allowed: bool
    rule: str  # in words, for the audit trail


class SubjectRights:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def decide(self, principal: str, address: str, right: Right, subject: str) -> SubjectAccessDecision:
        kind, name = (_REGISTRY, CLUSTER_NAME) if right is Right.ADMIN else (_SUBJECT, subject)
        decision = self._rules.decide(Asked(principal, address, _OPERATIONS[right], kind, name))
        if not decision.rule.startswith("ACL "):
            return SubjectAccessDecision(decision.is_allowed, decision.rule.replace("ACL", "rule"))
        acl, _ = self._rules.acls.find(Asked(principal, address, _OPERATIONS[right], kind, name))
        assert acl is not None, "the rule that decided"
        return SubjectAccessDecision(decision.is_allowed, _describe(acl.pattern, acl.entry))


def load_rights(path: Path) -> SubjectRights:
    """Raises ConfigError, with the error and its place."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path} is larger than {_MOST_BYTES} bytes")
        return parse_rights(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_rights(text: bytes) -> SubjectRights:
    """Raises ValueError."""
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    acls: dict[ResourcePattern, list[AclEntry]] = {}
    for number, rule in enumerate(file.rules):
        problem = _problem(rule)
        if problem:
            raise ValueError(f"rules[{number}]: {problem}")
        permission = Permission.ALLOW if rule.permission == "allow" else Permission.DENY
        for right in rule.operations:
            entry = AclEntry(rule.principal, WILDCARD, _OPERATIONS[right], permission)
            acls.setdefault(_pattern(rule, right), []).append(entry)
    strangers = [each for each in file.super_users if not is_principal(each)]
    if strangers:
        raise ValueError(f"superUsers: {strangers[0]!r} is not like User:name")
    return SubjectRights(Rules(AclIndex(acls), super_users=frozenset(file.super_users)))


def _problem(rule: _Rule) -> str:
    if not is_principal(rule.principal):
        return f"the principal {rule.principal!r} is not like User:name"
    if not rule.operations:
        return "no operations"
    about_all = Right.ADMIN in rule.operations
    if about_all and (rule.subject is not None or len(rule.operations) > 1):
        return "ADMIN is about no subject: give it a rule of its own, without a subject"
    if not about_all and not rule.subject:
        return "no subject"
    return ""


def _pattern(rule: _Rule, right: Right) -> ResourcePattern:
    if right is Right.ADMIN:
        return ResourcePattern(_REGISTRY, CLUSTER_NAME)
    kind = PatternType.PREFIXED if rule.pattern == "prefixed" else PatternType.LITERAL
    return ResourcePattern(_SUBJECT, rule.subject or "", kind)


def _describe(pattern: ResourcePattern, entry: AclEntry) -> str:
    right = next(right for right, operation in _OPERATIONS.items() if operation is entry.operation)
    words = f"rule {entry.permission.name.lower()} {entry.principal} {right}"
    if pattern.type is _REGISTRY:
        return words
    return f"{words} Subject:{pattern.name}{WILDCARD if pattern.pattern is PatternType.PREFIXED else ''}"
