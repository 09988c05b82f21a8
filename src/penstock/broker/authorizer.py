"""The authorizer's interface for handlers. Every handler asks before any other step. Without a configured authorizer
the answer is always yes; otherwise `acl_authorizer` decides.

Two questions have the same answer:
- `is_allowed`: the client wants to perform the operation. A refusal goes to the audit trail.
- `would_allow`: the client did not ask for this operation. The answer filters a list, or describes what else is
  allowed. A refusal leaves no trace.
"""

from __future__ import annotations

from typing import Protocol

from penstock.broker.session import Principal, RequestContext
from penstock.security.acls.types import CLUSTER_NAME, Operation, ResourceType

__all__ = [
    "CLUSTER_NAME",
    "NOT_ASKED",
    "AllowEverything",
    "Authorizer",
    "Operation",
    "ResourceType",
    "authorized_operations",
    "cluster_operations",
]

# The operations of each resource type, for `authorized_operations`.
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
    # Whether the authorizer has rules. Without rules the APIs for ACLs answer SECURITY_DISABLED.
    has_rules: bool

    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool: ...

    def would_allow(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool: ...

    def is_allowed_anywhere(self, context: RequestContext, operation: Operation, kind: ResourceType) -> bool:
        """Whether there may be a resource of this type on which the operation is allowed."""
        ...

    def is_super_user(self, principal: Principal) -> bool:
        """Whether the client is a super user, whom no rule restricts."""
        ...


class AllowEverything:
    has_rules = False

    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return True

    def would_allow(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return True

    def is_allowed_anywhere(self, context: RequestContext, operation: Operation, kind: ResourceType) -> bool:
        return True

    def is_super_user(self, principal: Principal) -> bool:
        return True


def authorized_operations(authorizer: Authorizer, context: RequestContext, kind: ResourceType, name: str) -> int:
    """The bit field that Metadata, DescribeCluster and DescribeGroups send on request."""
    return sum(1 << op for op in _OPERATIONS[kind] if authorizer.would_allow(context, op, kind, name))


def cluster_operations(authorizer: Authorizer, context: RequestContext) -> int:
    """The same for the cluster; a client that may not describe the cluster gets no operations."""
    if not authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(authorizer, context, ResourceType.CLUSTER, CLUSTER_NAME)
