"""Who may do what. Every handler asks before it does anything; until there are ACLs, the answer is always yes."""

from __future__ import annotations

import enum
from typing import Protocol

from penstock.broker.session import RequestContext


class Operation(enum.IntEnum):
    """Kafka's codes, as they travel in `authorized_operations` bit fields."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(enum.IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME = "kafka-cluster"

# The operations a resource of each type knows, for `authorized_operations`.
_OPERATIONS = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
NOT_ASKED = -(2**31)


class Authorizer(Protocol):
    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool: ...


class AllowEverything:
    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return True


def authorized_operations(authorizer: Authorizer, context: RequestContext, kind: ResourceType, name: str) -> int:
    """The bit field that Metadata, DescribeCluster and DescribeGroups send on request."""
    return sum(1 << op for op in _OPERATIONS[kind] if authorizer.is_allowed(context, op, kind, name))
