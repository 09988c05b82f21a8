"""The controller's decisions about ACLs: pure functions from the present ACLs and a request to results and the new
ACLs.

Codes and texts are Kafka's. An error concerns one ACL, or one filter, and leaves the others alone. Deletions happen
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.cluster.security_image import SecurityImage
from penstock.protocol.errors import ErrorCode
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import (
    CLUSTER_NAME,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from penstock.security.rules import is_principal

# The number of ACLs that a request may add or delete, as in Kafka.
MAX_CHANGES = 10_000


class CreateAclResult(NamedTuple):
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    is_new: bool = False  # an ACL that exists already is no error


class DeleteAclsResult(NamedTuple):
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    deleted: tuple[Acl, ...] = ()


_TOO_MANY = f"Excessively large number of ACLs in one request: {MAX_CHANGES} are allowed."


def decide_create_acls(
    security: SecurityImage, wanted: Sequence[Acl]
) -> tuple[tuple[CreateAclResult, ...], SecurityImage]:
    if len(wanted) > MAX_CHANGES:
        refused = CreateAclResult(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
        return (refused,) * len(wanted), security
    results: list[CreateAclResult] = []
    added: dict[ResourcePattern, dict[AclEntry, None]] = {}
    for acl in wanted:
        fault = find_fault(acl)
        if fault is not None:
            results.append(CreateAclResult(ErrorCode.INVALID_REQUEST, fault))
            continue
        pattern, entry = acl
        entries = added.get(pattern)
        if entries is None:
            entries = added[pattern] = dict.fromkeys(security.acls.get(pattern, ()))
        results.append(CreateAclResult(is_new=entry not in entries))
        entries[entry] = None
    if not any(result.is_new for result in results):
        return tuple(results), security
    changed = {
        pattern: tuple(entries)
        for pattern, entries in added.items()
        if len(entries) != len(security.acls.get(pattern, ()))
    }
    return tuple(results), security._replace(acls={**security.acls, **changed})


def decide_delete_acls(
    security: SecurityImage, filters: Sequence[AclFilter]
) -> tuple[tuple[DeleteAclsResult, ...], SecurityImage]:
    results: list[DeleteAclsResult] = []
    gone: dict[ResourcePattern, dict[AclEntry, None]] = {}
    count = 0
    for each in filters:
        if each.is_unknown:
            is_pattern = 0 in (each.type, each.pattern)
            text = "Unknown patternFilter." if is_pattern else "Unknown entryFilter."
            results.append(DeleteAclsResult(ErrorCode.INVALID_REQUEST, text))
            continue
        matching = tuple(each.select(security.acls))
        count += len(matching)
        if count > MAX_CHANGES:
            text = f"Cannot remove more than {MAX_CHANGES} acls in a single delete operation."
            results.append(DeleteAclsResult(ErrorCode.POLICY_VIOLATION, text))
            continue
        for pattern, entry in matching:
            gone.setdefault(pattern, {})[entry] = None
        results.append(DeleteAclsResult(deleted=matching))
    if not gone:
        return tuple(results), security
    acls = dict(security.acls)
    for pattern, entries in gone.items():
        left = tuple(entry for entry in acls[pattern] if entry not in entries)
        if left:
            acls[pattern] = left
        else:
            del acls[pattern]
    return tuple(results), security._replace(acls=acls)


def find_fault(acl: Acl) -> str | None:
    """The reason why an ACL cannot be stored."""
    (kind, name, pattern), (principal, host, operation, permission) = acl
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {kind.name}"
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {pattern.name}"
    if operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {operation.name}"
    if permission not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {permission.name}"
    if not is_principal(principal):
        return "expected a principal in format principalType:principalName"
    if not host:
        return "Invalid empty host"
    return None
