"""ACLs over the wire, of Penstock and of Apache Kafka alike."""

from __future__ import annotations

from collections.abc import Sequence

import penstock.admin.queries.acls as queries
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import open_broker
from penstock.cli.errors import CliError, explain
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.messages.create_acls import CreateAclsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsResponse
from penstock.protocol.messages.describe_acls import DescribeAclsResponse
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl

_NO_AUTHORIZER = "Start the brokers with authorizer.class.name, or with --secure."


def read_acls(cluster: ClusterClient, filters: Sequence[AclFilter]) -> list[Acl]:
    """What matches any of the filters, in order."""
    found: set[Acl] = set()
    with open_broker(cluster) as broker:
        for each in filters:
            response = broker.request(queries.describe_acls(each), DescribeAclsResponse)
            _check(response.error_code, response.error_message)
            found.update(queries.read_acls(response))
    return sorted(found)


def add_acls(cluster: ClusterClient, acls: Sequence[Acl]) -> None:
    with open_broker(cluster) as broker:
        response = broker.request(queries.create_acls(acls), CreateAclsResponse)
    for result in response.results:
        _check(result.error_code, result.error_message)


def remove_acls(cluster: ClusterClient, acls: Sequence[Acl]) -> list[Acl]:
    """Those that were there."""
    with open_broker(cluster) as broker:
        response = broker.request(queries.delete_acls(map(queries.exact_filter, acls)), DeleteAclsResponse)
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
