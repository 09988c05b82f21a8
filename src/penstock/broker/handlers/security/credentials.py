"""Passwords of users: DescribeUserScramCredentials, AlterUserScramCredentials.

The metadata keeps the credentials, and every broker learns a change at once. No answer contains a password, nor data
from which a password could be guessed.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.session import RequestContext, shorten
from penstock.broker.slices import Work, collect
from penstock.cluster.decisions.security.users import (
    Deletion,
    Upsertion,
    UserResult,
    decide_alter_users,
    describe_user,
    scram_users,
)
from penstock.cluster.metadata import Metadata, answer_each
from penstock.cluster.security_image import SecurityImage
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from penstock.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_UNKNOWN = "Attempt to describe a user credential that does not exist: "
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


class CredentialPort(Protocol):
    """The parts of the broker that the handlers of credentials use."""

    authorizer: Authorizer
    metadata: Metadata


def describe_user_scram_credentials(
    broker: CredentialPort, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Work[DescribeUserScramCredentialsResponse]:
    """Lists the SCRAM mechanisms of the named users, or of all users where the list is null or empty.

    A user without SCRAM credentials gets RESOURCE_NOT_FOUND, a user named twice DUPLICATE_RESOURCE. Version 0 is the
    only version.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    security = broker.metadata.image.security
    named = [user.name for user in request.users or ()] or scram_users(security)
    counts = Counter((yield from collect(iter(named))))
    results = yield from collect(_describe(security, name, count) for name, count in counts.items())
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _describe(security: SecurityImage, name: str, count: int) -> DescribeUserScramCredentialsResult:
    known = describe_user(security, name)
    if count > 1 or not known:
        code, text = (ErrorCode.DUPLICATE_RESOURCE, _TWICE) if count > 1 else (ErrorCode.RESOURCE_NOT_FOUND, _UNKNOWN)
        return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=text + shorten(name))
    infos = [CredentialInfo(mechanism=each.mechanism, iterations=each.iterations) for each in known]
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


async def alter_user_scram_credentials(
    broker: CredentialPort, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Sets and removes passwords of users: each user once, and an error concerns its user alone.

    A user named twice gets DUPLICATE_RESOURCE, a missing password RESOURCE_NOT_FOUND, an empty name or a forbidden
    number of iterations UNACCEPTABLE_CREDENTIAL. Version 0 is the only version.
    """
    deletions = [Deletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
        for each in request.upsertions
    ]
    users = dict.fromkeys([*(each.user for each in deletions), *(each.user for each in upsertions)])
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _response(tuple(UserResult(user, code, describe(code)) for user in users))
    results = await answer_each(
        broker.metadata.security.apply(lambda security: decide_alter_users(security, deletions, upsertions)),
        lambda code, message: (UserResult(user, code, message) for user in users),
    )
    return _response(results)


def _response(results: tuple[UserResult, ...]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=each.user, error_code=each.code, error_message=each.message)
            for each in results
        ]
    )
