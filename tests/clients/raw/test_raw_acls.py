"""DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest
from tests.clients.raw.wire import Wire, error_of, errors_of

TOPIC, LITERAL, ANY, READ, ALLOW = 2, 3, 1, 3, 3
VERSIONS = range(1, 4)
SECURITY_DISABLED = ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize("version", VERSIONS)
def test_security_is_disabled_when_acls_are_described(wire: Wire, version: int) -> None:
    request = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = wire(request, version)
    assert error_of(answer) is SECURITY_DISABLED
    assert "No Authorizer is configured" in answer.error_message
    assert answer.resources == []


@pytest.mark.parametrize("version", VERSIONS)
def test_security_is_disabled_for_each_rule_when_acls_are_created(wire: Wire, version: int) -> None:
    rule = AclCreation(
        resource_type=TOPIC,
        resource_name="orders",
        resource_pattern_type=LITERAL,
        principal="User:alice",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    results = wire(CreateAclsRequest(creations=[rule, rule]), version).results
    assert errors_of(results) == [SECURITY_DISABLED] * 2
    assert results[0].error_message == "No Authorizer is configured."
    assert wire(CreateAclsRequest(creations=[]), version).results == []


@pytest.mark.parametrize("version", VERSIONS)
def test_security_is_disabled_for_each_filter_when_acls_are_deleted(wire: Wire, version: int) -> None:
    wanted = DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    results = wire(DeleteAclsRequest(filters=[wanted, wanted]), version).filter_results
    assert errors_of(results) == [SECURITY_DISABLED] * 2
    assert results[0].error_message == "No Authorizer is configured."
    assert results[0].matching_acls == []
