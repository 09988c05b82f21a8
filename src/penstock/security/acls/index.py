"""ACLs by resource, name and principal, so that a decision looks at few of them, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.security.acls.types import (
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    camel_case,
)
from penstock.security.addresses import canonical_host

ANYBODY = "User:*"

_IMPLY_DESCRIBE = frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER))
# For each operation those that imply it in an ALLOW, and the operation itself.
_ALLOWED_BY = {
    operation: frozenset((Operation.ALL, operation))
    | (_IMPLY_DESCRIBE if operation is Operation.DESCRIBE else frozenset())
    | (frozenset((Operation.ALTER_CONFIGS,)) if operation is Operation.DESCRIBE_CONFIGS else frozenset())
    for operation in Operation
}


def allows(granted: Operation, wanted: Operation) -> bool:
    """Whether a rule that allows one operation allows another."""
    return granted in _ALLOWED_BY[wanted]


def denies(refused: Operation, wanted: Operation) -> bool:
    return refused is wanted or refused is Operation.ALL


class Asked(NamedTuple):
    """What somebody wants to do."""

    principal: str  # `User:alice`
    host: str  # an address
    operation: Operation
    kind: ResourceType
    name: str


class Acl(NamedTuple):
    """One rule: an entry with the pattern that it belongs to."""

    pattern: ResourcePattern
    entry: AclEntry

    @property
    def is_deny(self) -> bool:
        return self.entry.permission is Permission.DENY

    def __str__(self) -> str:
        principal, host, operation, permission = self.entry
        return (
            f"ACL {camel_case(permission)} {principal} {camel_case(operation)} {describe_pattern(self.pattern)} "
            f"from {host}"
        )


def describe_pattern(pattern: ResourcePattern) -> str:
    star = WILDCARD if pattern.pattern is PatternType.PREFIXED else ""
    return f"{camel_case(pattern.type)}:{pattern.name}{star}"


class _Rule(NamedTuple):
    """An ACL as the index keeps it."""

    host: str  # canonical
    operation: Operation
    is_deny: bool
    acl: Acl


_ByPrincipal = dict[str, list[_Rule]]


class AclIndex:
    """Built once for each set of ACLs. An index that follows another one takes over what has not changed: of 10,000
    patterns 9,999 cost a comparison.
    """

    __slots__ = ("_by_type", "_literal", "_parts", "_prefix_lengths", "_prefixed", "count")

    def __init__(self, acls: Mapping[ResourcePattern, Sequence[AclEntry]], before: AclIndex | None = None) -> None:
        known = {} if before is None else before._parts
        self._parts: dict[ResourcePattern, tuple[Sequence[AclEntry], _ByPrincipal]] = {}
        self._literal: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._prefixed: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._by_type: dict[ResourceType, list[_ByPrincipal]] = {}
        lengths: dict[ResourceType, set[int]] = {}
        self.count = 0
        for pattern, entries in acls.items():
            if not entries:
                continue
            part = known.get(pattern)
            if part is None or part[0] is not entries:
                part = entries, _group(pattern, entries)
            self._parts[pattern] = part
            by_principal = part[1]
            self.count += len(entries)
            if pattern.pattern is PatternType.PREFIXED:
                self._prefixed[pattern.type, pattern.name] = by_principal
                lengths.setdefault(pattern.type, set()).add(len(pattern.name))
            else:
                self._literal[pattern.type, pattern.name] = by_principal
            self._by_type.setdefault(pattern.type, []).append(by_principal)
        # Longest first: the rule that is told is the most specific one.
        self._prefix_lengths = {kind: sorted(found, reverse=True) for kind, found in lengths.items()}

    def find(self, asked: Asked) -> tuple[Acl | None, bool]:
        """The ACL that decides, and whether the resource has any ACL at all."""
        principal, host, operation, kind, name = asked
        host = canonical_host(host)
        allowing: Acl | None = None
        has_acls = False
        allowed_by = _ALLOWED_BY[operation]
        for by_principal in self._matching(kind, name):
            has_acls = True
            for who in (principal, ANYBODY):
                for rule in by_principal.get(who, ()):
                    if rule.host not in (WILDCARD, host):
                        continue
                    if rule.is_deny:
                        if denies(rule.operation, operation):
                            return rule.acl, True
                    elif allowing is None and rule.operation in allowed_by:
                        allowing = rule.acl
        return allowing, has_acls

    def find_anywhere(self, asked: Asked) -> tuple[Acl | None, Acl | None]:
        """The ACL that allows the operation on some resource of the type, or the ACL that denies it on all of them."""
        allowed: list[Acl] = []
        denied: set[tuple[PatternType, str]] = set()
        everywhere: Acl | None = None
        for acl in self._of_client(asked):
            pattern = acl.pattern
            if not acl.is_deny:
                if pattern.pattern is PatternType.LITERAL and pattern.name == WILDCARD:
                    everywhere = everywhere or acl
                else:
                    allowed.append(acl)
            elif pattern.pattern is PatternType.LITERAL and pattern.name == WILDCARD:
                return None, acl
            else:
                denied.add((pattern.pattern, pattern.name))
        if everywhere is not None:
            return everywhere, None
        return next((acl for acl in allowed if not _is_covered(acl.pattern, denied)), None), None

    def _of_client(self, asked: Asked) -> Iterator[Acl]:
        host = canonical_host(asked.host)
        for by_principal in self._by_type.get(asked.kind, ()):
            for who in dict.fromkeys((asked.principal, ANYBODY)):
                for rule in by_principal.get(who, ()):
                    if rule.host in (WILDCARD, host) and denies(rule.operation, asked.operation):
                        yield rule.acl

    def _matching(self, kind: ResourceType, name: str) -> Iterator[_ByPrincipal]:
        literal = self._literal.get((kind, name))
        if literal is not None:
            yield literal
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                prefixed = self._prefixed.get((kind, name[:length]))
                if prefixed is not None:
                    yield prefixed
        if name != WILDCARD:
            everything = self._literal.get((kind, WILDCARD))
            if everything is not None:
                yield everything


def _group(pattern: ResourcePattern, entries: Sequence[AclEntry]) -> _ByPrincipal:
    by_principal: _ByPrincipal = {}
    for entry in entries:
        is_deny = entry.permission is Permission.DENY
        rule = _Rule(canonical_host(entry.host), entry.operation, is_deny, Acl(pattern, entry))
        by_principal.setdefault(entry.principal, []).append(rule)
    return by_principal


def _is_covered(pattern: ResourcePattern, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether all that the pattern matches is denied by one pattern."""
    name = pattern.name
    if pattern.pattern is PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
