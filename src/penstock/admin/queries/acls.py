"""ACLs, in the words of `security.acls`. A word that is newer than this program is UNKNOWN."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

Word = TypeVar("Word", bound=enum.IntEnum)

# What DescribeAcls and DeleteAcls call the fields of an AclFilter, in its order.
_FILTER_FIELDS = (
    "resource_type_filter",
    "resource_name_filter",
    "pattern_type_filter",
    "principal_filter",
    "host_filter",
    "operation",
    "permission_type",
)


def describe_acls(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(**_fields(wanted))


def read_acls(answer: DescribeAclsResponse) -> list[Acl]:
    """In order."""
    return sorted(
        _acl(
            (resource.resource_type, resource.resource_name, resource.pattern_type),
            (row.principal, row.host, row.operation, row.permission_type),
        )
        for resource in answer.resources
        for row in resource.acls
    )


def create_acls(acls: Iterable[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=pattern.type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in acls
        ]
    )


def delete_acls(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(each)) for each in filters])


def exact_filter(acl: Acl) -> AclFilter:
    """Matches this ACL alone."""
    pattern, entry = acl
    return AclFilter(
        pattern.type, pattern.name, pattern.pattern, entry.principal, entry.host, entry.operation, entry.permission
    )


def read_deleted_acls(result: DeleteAclsFilterResult) -> list[Acl]:
    """Those that were deleted, in order; rows with an error were not."""
    return sorted(
        _acl(
            (row.resource_type, row.resource_name, row.pattern_type),
            (row.principal, row.host, row.operation, row.permission_type),
        )
        for row in result.matching_acls
        if not row.error_code
    )


def _fields(wanted: AclFilter) -> dict[str, Any]:
    return dict(zip(_FILTER_FIELDS, wanted, strict=True))


def _acl(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> Acl:
    kind, name, pattern_type = pattern
    principal, host, operation, permission = entry
    return Acl(
        ResourcePattern(_word(ResourceType, kind), name, _word(PatternType, pattern_type)),
        AclEntry(principal, host, _word(Operation, operation), _word(Permission, permission)),
    )


def _word(kind: type[Word], number: int) -> Word:
    return kind(number) if number in kind._value2member_map_ else kind["UNKNOWN"]
