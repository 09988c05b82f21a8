"""ACLs, in the words of `security.acls`. A word that is newer than this program is UNKNOWN."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeVar

from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

Word = TypeVar("Word", bound=enum.IntEnum)


def describe_acls(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


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
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )


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


def _acl(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> Acl:
    kind, name, pattern_type = pattern
    principal, host, operation, permission = entry
    return Acl(
        ResourcePattern(_word(ResourceType, kind), name, _word(PatternType, pattern_type)),
        AclEntry(principal, host, _word(Operation, operation), _word(Permission, permission)),
    )


def _word(kind: type[Word], number: int) -> Word:
    return kind(number) if number in kind._value2member_map_ else kind["UNKNOWN"]
