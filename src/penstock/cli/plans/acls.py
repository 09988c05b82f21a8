"""From options to rules: which ACLs a command adds, removes or shows. Shortcuts are those of kafka-acls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.cli.errors import UsageError
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import ANYBODY, Acl
from penstock.security.acls.types import (
    CLUSTER_NAME,
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    camel_case,
)
from penstock.security.addresses import parse_address

_OPERATIONS = {camel_case(each).lower(): each for each in Operation if each > Operation.ANY}
_KINDS = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)
# What kafka-acls gives a producer and a consumer.
_PRODUCER_ON_TOPIC = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_PRODUCER_ON_TRANSACTION = (Operation.WRITE, Operation.DESCRIBE)
_CONSUMER_ON_TOPIC = (Operation.READ, Operation.DESCRIBE)
_CONSUMER_ON_GROUP = (Operation.READ,)


class Resources(NamedTuple):
    """The resources that a command names."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    users: Sequence[str] = ()
    is_cluster: bool = False
    pattern: PatternType = PatternType.LITERAL

    def patterns(self) -> Iterator[ResourcePattern]:
        lists = (self.topics, self.groups, self.transactional_ids, self.delegation_tokens, self.users)
        for kind, names in zip(_KINDS, lists, strict=True):
            for name in names:
                yield ResourcePattern(kind, name, self.pattern)
        if self.is_cluster:
            yield ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)

    def of(self, kind: ResourceType) -> list[ResourcePattern]:
        return [pattern for pattern in self.patterns() if pattern.type is kind]


class Subjects(NamedTuple):
    """Who, from where, and whether they may or may not."""

    principals: Sequence[str] = (ANYBODY,)
    hosts: Sequence[str] = (WILDCARD,)
    permission: Permission = Permission.ALLOW

    def entries(self, operations: Iterable[Operation]) -> Iterator[AclEntry]:
        for operation in operations:
            for principal in self.principals:
                for host in self.hosts:
                    yield AclEntry(principal, host, operation, self.permission)


class Shortcuts(NamedTuple):
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False


def parse_host(text: str) -> str:
    """An address, or `*`. Brokers take any text, as Kafka's do, and compare it with the client's address: a rule for a
    range or a name would never match, which nobody notices of one that denies.
    """
    if text != WILDCARD and parse_address(text) is None:
        raise UsageError(
            f"{text} is no address, and an ACL knows no ranges and no names of hosts",
            "Policies know ranges: penstock policies add NAME --tag KEY:VALUE --deny --address 10.0.0.0/8",
        )
    return text


def parse_principal(text: str) -> str:
    """`alice` is short for `User:alice`."""
    if not text:
        raise UsageError("a principal cannot be empty")
    kind, colon, name = text.partition(":")
    if not colon or "=" in kind:  # a name from a certificate may have a colon further on
        return f"User:{text}"
    if not kind or not name:
        raise UsageError(f"{text} is no principal", "Write User:alice, or alice.")
    return text


def parse_operation(text: str) -> Operation:
    operation = _OPERATIONS.get(text.replace("_", "").replace("-", "").lower())
    if operation is None:
        names = ", ".join(camel_case(each) for each in _OPERATIONS.values())
        raise UsageError(f"{text} is no operation", f"There are {names}.")
    return operation


def plan_rules(
    resources: Resources, subjects: Subjects, operations: Sequence[Operation], shortcuts: Shortcuts
) -> list[Acl]:
    """The rules that a command means. Raises UsageError where it means none."""
    if shortcuts.is_producer or shortcuts.is_consumer:
        if operations:
            raise UsageError("--producer and --consumer choose the operations", "Leave --operation out.")
        if subjects.permission is Permission.DENY:
            raise UsageError("--producer and --consumer allow", "Deny single operations with --operation.")
        return list(dict.fromkeys(_plan_shortcuts(resources, subjects, shortcuts)))
    patterns = list(resources.patterns())
    if not patterns:
        raise UsageError("name a resource", "For instance --topic orders, --group readers or --cluster.")
    wanted = operations or (Operation.ALL,)
    return [Acl(pattern, entry) for pattern in patterns for entry in subjects.entries(wanted)]


def _plan_shortcuts(resources: Resources, subjects: Subjects, shortcuts: Shortcuts) -> Iterator[Acl]:
    topics, groups = resources.of(ResourceType.TOPIC), resources.of(ResourceType.GROUP)
    transactions = resources.of(ResourceType.TRANSACTIONAL_ID)
    if not topics:
        raise UsageError("a producer and a consumer need a topic", "Add --topic.")
    if shortcuts.is_consumer and not groups:
        raise UsageError("a consumer needs a group", "Add --group.")
    needed: list[tuple[list[ResourcePattern], tuple[Operation, ...]]] = []
    if shortcuts.is_producer:
        needed += [(topics, _PRODUCER_ON_TOPIC), (transactions, _PRODUCER_ON_TRANSACTION)]
        if shortcuts.is_idempotent:
            cluster = [ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)]
            needed.append((cluster, (Operation.IDEMPOTENT_WRITE,)))
    if shortcuts.is_consumer:
        needed += [(topics, _CONSUMER_ON_TOPIC), (groups, _CONSUMER_ON_GROUP)]
    for patterns, operations in needed:
        for pattern in patterns:
            for entry in subjects.entries(operations):
                yield Acl(pattern, entry)


def plan_filters(
    resources: Resources,
    principals: Sequence[str],
    hosts: Sequence[str],
    operations: Sequence[Operation],
    permission: Permission,
) -> list[AclFilter]:
    """One filter for each combination; what is not named is any."""
    patterns: list[tuple[ResourceType, str | None, PatternType]] = [
        (pattern.type, pattern.name, resources.pattern) for pattern in resources.patterns()
    ]
    everybody: tuple[None] = (None,)
    return [
        AclFilter(kind, name, pattern, principal, host, operation, permission)
        for kind, name, pattern in patterns or [(ResourceType.ANY, None, PatternType.ANY)]
        for principal in principals or everybody
        for host in hosts or everybody
        for operation in operations or [Operation.ANY]
    ]
