"""ACLs by resource, name and principal, so that a decision looks at few of them, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
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
# For each operation the operations that imply it in an ALLOW, and the operation itself.
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
    """An access that a client wants."""

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
    """Built once for each set of ACLs. An index that follows another one takes over what has not changed. That runs on
    the event loop of each broker: with 100,000 patterns, or 20,000 rules on one, a change of one rule costs a look at
    each.
    """

    __slots__ = ("_acls", "_by_type", "_lengths", "_literal", "_prefix_lengths", "_prefixed", "count")

    def __init__(self, acls: Mapping[ResourcePattern, Sequence[AclEntry]], before: AclIndex | None = None) -> None:
        self._acls = acls
        known: Mapping[ResourcePattern, Sequence[AclEntry]] = {}
        self._literal: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._prefixed: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._by_type: dict[ResourceType, dict[ResourcePattern, _ByPrincipal]] = {}
        self._lengths: Counter[tuple[ResourceType, int]] = Counter()  # of the names of prefixed patterns
        self.count = 0
        if before is not None:
            known, self.count = before._acls, before.count
            self._literal, self._prefixed = before._literal.copy(), before._prefixed.copy()
            self._by_type = {kind: patterns.copy() for kind, patterns in before._by_type.items()}
            self._lengths = before._lengths.copy()
        former, latter = _changed(known, acls)
        for pattern, entries in former.items():
            if entries and not latter.get(pattern):
                self._remove(pattern, entries)
        for pattern, entries in latter.items():
            old = former.get(pattern, ())
            if entries and old is not entries:
                self._put(pattern, old, entries)
        # Longest first: the decision names the most specific rule.
        self._prefix_lengths: dict[ResourceType, list[int]] = {}
        for kind, length in sorted(self._lengths, key=lambda each: each[1], reverse=True):
            self._prefix_lengths.setdefault(kind, []).append(length)

    def _place(self, pattern: ResourcePattern) -> dict[tuple[ResourceType, str], _ByPrincipal]:
        return self._prefixed if pattern.pattern is PatternType.PREFIXED else self._literal

    def _put(self, pattern: ResourcePattern, old: Sequence[AclEntry], entries: Sequence[AclEntry]) -> None:
        patterns = self._by_type.setdefault(pattern.type, {})
        patterns[pattern] = self._place(pattern)[pattern.type, pattern.name] = _group_anew(
            pattern, patterns.get(pattern, {}), old, entries
        )
        self.count += len(entries) - len(old)
        if pattern.pattern is PatternType.PREFIXED and not old:
            self._lengths[pattern.type, len(pattern.name)] += 1

    def _remove(self, pattern: ResourcePattern, entries: Sequence[AclEntry]) -> None:
        del self._by_type[pattern.type][pattern]
        del self._place(pattern)[pattern.type, pattern.name]
        self.count -= len(entries)
        if pattern.pattern is PatternType.PREFIXED:
            length = pattern.type, len(pattern.name)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

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
        for by_principal in self._by_type.get(asked.kind, {}).values():
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


def _group_anew(
    pattern: ResourcePattern, grouped: _ByPrincipal, old: Sequence[AclEntry], entries: Sequence[AclEntry]
) -> _ByPrincipal:
    """`grouped` has the old entries."""
    start, end = _count_same((old, entries))
    changed = {entry.principal for each in (old, entries) for entry in each[start : len(each) - end]}
    anew = _group(pattern, [entry for entry in entries if entry.principal in changed])
    return {principal: rules for principal, rules in grouped.items() if principal not in changed} | anew


def _changed(
    old: Mapping[ResourcePattern, Sequence[AclEntry]], new: Mapping[ResourcePattern, Sequence[AclEntry]]
) -> tuple[dict[ResourcePattern, Sequence[AclEntry]], dict[ResourcePattern, Sequence[AclEntry]]]:
    """Both without their common beginning and end: images keep unchanged entries, in their order."""
    start, end = _count_same((list(old), list(new)), (list(old.values()), list(new.values())))
    former, latter = list(old)[start : len(old) - end], list(new)[start : len(new) - end]
    return {pattern: old[pattern] for pattern in former}, {pattern: new[pattern] for pattern in latter}


def _count_same(*columns: tuple[Sequence[object], Sequence[object]]) -> tuple[int, int]:
    """How many objects are the same at the beginning, and how many of the others at the end. 100,000 comparisons by
    identity take 4 ms; hashes of the entries would take 30.
    """
    start = min(_count_first(map(is_, old, new)) for old, new in columns)
    rest = min(min(len(old), len(new)) for old, new in columns) - start
    end = min(_count_first(map(is_, reversed(old), reversed(new))) for old, new in columns)
    return start, min(end, rest)


def _count_first(are_same: Iterable[bool]) -> int:
    seen = list(are_same)
    return seen.index(False) if False in seen else len(seen)


def _is_covered(pattern: ResourcePattern, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether one pattern denies all names that `pattern` matches."""
    name = pattern.name
    if pattern.pattern is PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
