"""Passwords of users: DescribeUserScramCredentials. No password can be stored yet, so no user has one.

AlterUserScramCredentials is not served: a client that wants to set a password learns from ApiVersions that it cannot.
"""

from __future__ import annotations

from collections import Counter

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext, shorten
from penstock.broker.slices import Work, collect
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_UNKNOWN = "Attempt to describe a user credential that does not exist: "
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


def describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Work[DescribeUserScramCredentialsResponse]:
    """The SCRAM mechanisms of the named users, or of all users where the list is null or empty.

    A named user is answered RESOURCE_NOT_FOUND, a user named twice DUPLICATE_RESOURCE. Version 0 is the only one.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    counts = Counter((yield from collect(user.name for user in request.users or ())))
    results = yield from collect(_describe(name, count) for name, count in counts.items())
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _describe(name: str, count: int) -> DescribeUserScramCredentialsResult:
    code, text = (ErrorCode.RESOURCE_NOT_FOUND, _UNKNOWN) if count == 1 else (ErrorCode.DUPLICATE_RESOURCE, _TWICE)
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=text + shorten(name))
