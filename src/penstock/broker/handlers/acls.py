"""Access control lists: DescribeAcls, CreateAcls, DeleteAcls.

There is no authorizer yet, so all three answer SECURITY_DISABLED, as a Kafka does that has none configured. Admin tools
and MirrorMaker 2 understand that answer and go on; a connection that is closed they report as an error.
"""

from __future__ import annotations

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext
from penstock.broker.slices import Work, collect
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

# Kafka's words, which users search for.
_DISABLED = "No Authorizer is configured."


def describe_acls(broker: Broker, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Which access rules there are: none can be stored, which the one error of the response says.

    Version 2 is flexible; version 3 adds the resource type `user`. The filter is not looked at, as in Kafka.
    """
    code, message = _refusal(broker, context, Operation.DESCRIBE, "No Authorizer is configured on the broker")
    return DescribeAclsResponse(error_code=code, error_message=message)


def create_acls(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> Work[CreateAclsResponse]:
    """Stores access rules: refused, once for each rule. The response has no error of its own.

    Version 2 is flexible; version 3 adds the resource type `user`.
    """
    code, message = _refusal(broker, context, Operation.ALTER)
    refused = (AclCreationResult(error_code=code, error_message=message) for _ in request.creations)
    return CreateAclsResponse(results=(yield from collect(refused)))


def delete_acls(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> Work[DeleteAclsResponse]:
    """Deletes the access rules that match filters: refused, once for each filter. The response has no error of its own.

    Version 2 is flexible; version 3 adds the resource type `user`.
    """
    code, message = _refusal(broker, context, Operation.ALTER)
    refused = (DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters)
    return DeleteAclsResponse(filter_results=(yield from collect(refused)))


def _refusal(
    broker: Broker, context: RequestContext, operation: Operation, disabled: str = _DISABLED
) -> tuple[ErrorCode, str]:
    if not broker.authorizer.is_allowed(context, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return code, describe(code)
    return ErrorCode.SECURITY_DISABLED, disabled
