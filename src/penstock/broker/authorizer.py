"""Who may do what. Every handler asks before it does anything; until there are ACLs, the answer is always yes."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.session import RequestContext
from penstock.security.acls.types import CLUSTER_NAME, Operation, ResourceType

__all__ = [
    "CLUSTER_NAME",
    "NOT_ASKED",
    "AllowEverything",
    "Authorizer",
    "Operation",
    "ResourceType",
    "authorized_operations",
]


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
