"""Filters of ACLs, as DescribeAcls and DeleteAcls have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.security.acls.index import Acl
from penstock.security.acls.types import (
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)


class AclFilter(NamedTuple):
    """None, and ANY, match everything. The pattern type ANY matches this very name in a pattern of any type; MATCH
    matches all patterns that apply to the name.
    """

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether a part of the filter is an unknown number: such a filter matches nothing."""
        return 0 in (self.type, self.pattern, self.operation, self.permission)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.type not in (ResourceType.ANY, pattern.type):
            return False
        if self.pattern is PatternType.MATCH:
            return self.name is None or _has_a_say(pattern, self.name)
        return self.pattern in (PatternType.ANY, pattern.pattern) and self.name in (None, pattern.name)

    def matches_entry(self, entry: AclEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def select(self, acls: Mapping[ResourcePattern, Sequence[AclEntry]]) -> Iterator[Acl]:
        for pattern, entries in acls.items():
            if self.matches_pattern(pattern):
                for entry in entries:
                    if self.matches_entry(entry):
                        yield Acl(pattern, entry)


def _has_a_say(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)
