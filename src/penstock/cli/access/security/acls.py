"""ACLs over the wire, of Penstock and of Apache Kafka alike."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.access.cluster_client import Cluster
from penstock.cli.access.raw_client import open_broker
from penstock.cli.errors import CliError, explain
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.messages import create_acls as create_messages
from penstock.protocol.messages import delete_acls as delete_messages
from penstock.protocol.messages import describe_acls as describe_messages
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

_NO_AUTHORIZER = "Start the brokers with authorizer.class.name, or with --secure."


def read_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """What matches any of the filters, in order."""
    found: dict[Acl, None] = {}
    with open_broker(cluster) as broker:
        for each in filters:
            request = describe_messages.DescribeAclsRequest(
                resource_type_filter=each.type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            response = broker.request(request, describe_messages.DescribeAclsResponse)
            _check(response.error_code, response.error_message)
            for resource in response.resources:
                pattern = ResourcePattern(
                    ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type)
                )
                for acl in resource.acls:
                    entry = AclEntry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type))
                    found[Acl(pattern, entry)] = None
    return sorted(found)


def add_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    creations = [
        create_messages.AclCreation(
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
    with open_broker(cluster) as broker:
        response = broker.request(
            create_messages.CreateAclsRequest(creations=creations), create_messages.CreateAclsResponse
        )
    for result in response.results:
        _check(result.error_code, result.error_message)


def remove_acls(cluster: Cluster, acls: Sequence[Acl]) -> list[Acl]:
    """Those that were there."""
    filters = [
        delete_messages.DeleteAclsFilter(
            resource_type_filter=pattern.type,
            resource_name_filter=pattern.name,
            pattern_type_filter=pattern.pattern,
            principal_filter=entry.principal,
            host_filter=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entry in acls
    ]
    with open_broker(cluster) as broker:
        response = broker.request(
            delete_messages.DeleteAclsRequest(filters=filters), delete_messages.DeleteAclsResponse
        )
    removed = []
    for acl, result in zip(acls, response.filter_results, strict=True):
        _check(result.error_code, result.error_message)
        if result.matching_acls:
            removed.append(acl)
    return removed


def _check(code: int, message: str | None) -> None:
    if code == ErrorCode.SECURITY_DISABLED:
        raise CliError("the brokers have no authorizer, so there are no ACLs", _NO_AUTHORIZER)
    if code != ErrorCode.NONE:
        name = ErrorCode(code)
        raise explain(name.name, message or describe(name))
