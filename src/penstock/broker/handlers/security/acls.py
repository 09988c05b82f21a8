"""Access control lists: DescribeAcls, CreateAcls, DeleteAcls.

Any broker shows ACLs; the controller changes them. Without an authorizer all three answer SECURITY_DISABLED, as in
Kafka: admin tools and MirrorMaker 2 understand that answer and go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.session import RequestContext, UnanswerableError
from penstock.broker.slices import Slices, Work, collect
from penstock.cluster.decisions.security.acls import (
    CreateAclResult,
    DeleteAclsResult,
    decide_create_acls,
    decide_delete_acls,
)
from penstock.cluster.metadata import Metadata, answer_each
from penstock.protocol.errors import ErrorCode, describe, shorten_reason
from penstock.protocol.messages import create_acls as create_messages
from penstock.protocol.messages import delete_acls as delete_messages
from penstock.protocol.messages import describe_acls as describe_messages
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, PatternType, Permission, ResourcePattern

# Kafka's message, which users search for.
_DISABLED = "No Authorizer is configured."
_DISABLED_ON_BROKER = "No Authorizer is configured on the broker"
_UNKNOWN = 0

Word = TypeVar("Word", Operation, ResourceType, PatternType, Permission)


class AclPort(Protocol):
    """The parts of the broker that the handlers of ACLs use."""

    authorizer: Authorizer
    metadata: Metadata
    slices: Slices


class _Refusal(NamedTuple):
    code: ErrorCode
    message: str


def describe_acls(
    broker: AclPort, context: RequestContext, request: describe_messages.DescribeAclsRequest
) -> Work[describe_messages.DescribeAclsResponse]:
    """Lists the ACLs that match a filter. Null and ANY match everything; the pattern type MATCH finds all ACLs that
    apply to a name.

    Version 2 is flexible; version 3 adds the resource type `user`.
    """
    refusal = _refuse(broker, context, Operation.DESCRIBE, _DISABLED_ON_BROKER)
    if refusal is not None:
        return describe_messages.DescribeAclsResponse(error_code=refusal.code, error_message=refusal.message)
    _check_known(
        (request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    )
    wanted = _filter(request)
    resources = []
    for pattern, entries in broker.metadata.image.security.acls.items():
        if wanted.matches_pattern(pattern):
            acls = yield from collect(_described(entry) for entry in entries if wanted.matches_entry(entry))
            if acls:
                resources.append(
                    describe_messages.DescribeAclsResource(
                        resource_type=pattern.type,
                        resource_name=pattern.name,
                        pattern_type=pattern.pattern,
                        acls=acls,
                    )
                )
        yield
    return describe_messages.DescribeAclsResponse(error_message=None, resources=resources)


async def create_acls(
    broker: AclPort, context: RequestContext, request: create_messages.CreateAclsRequest
) -> create_messages.CreateAclsResponse:
    """Stores ACLs. Each succeeds or fails by itself; an ACL that exists already succeeds.

    Version 2 is flexible; version 3 adds the resource type `user`.
    """
    refusal = _refuse(broker, context, Operation.ALTER)
    if refusal is not None:
        results: Iterable[CreateAclResult] = (CreateAclResult(*refusal) for _ in request.creations)
    else:
        for each in request.creations:
            _check_known((each.resource_type, each.resource_pattern_type, each.operation, each.permission_type))
        wanted = await broker.slices.run(collect(map(_new_acl, request.creations)))
        results = await answer_each(
            broker.metadata.security.apply(lambda security: decide_create_acls(security, wanted)),
            lambda code, message: (CreateAclResult(code, message) for _ in wanted),
        )
    told = (
        create_messages.AclCreationResult(error_code=each.code, error_message=shorten_reason(each.message))
        for each in results
    )
    return create_messages.CreateAclsResponse(results=await broker.slices.run(collect(told)))


async def delete_acls(
    broker: AclPort, context: RequestContext, request: delete_messages.DeleteAclsRequest
) -> delete_messages.DeleteAclsResponse:
    """Deletes the ACLs that match filters, all together, and lists the deleted ACLs of each filter.

    Version 2 is flexible; version 3 adds the resource type `user`.
    """
    refusal = _refuse(broker, context, Operation.ALTER)
    if refusal is not None:
        results: Iterable[DeleteAclsResult] = (DeleteAclsResult(*refusal) for _ in request.filters)
    else:
        for each in request.filters:
            _check_known((each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type))
        filters = await broker.slices.run(collect(map(_filter, request.filters)))
        results = await answer_each(
            broker.metadata.security.apply(lambda security: decide_delete_acls(security, filters)),
            lambda code, message: (DeleteAclsResult(code, message) for _ in filters),
        )
    response = delete_messages.DeleteAclsResponse()
    async for result in broker.slices.each(results):
        acls = await broker.slices.run(collect(map(_deleted, result.deleted)))
        response.filter_results.append(
            delete_messages.DeleteAclsFilterResult(
                error_code=result.code, error_message=shorten_reason(result.message), matching_acls=acls
            )
        )
    return response


def _refuse(
    broker: AclPort, context: RequestContext, operation: Operation, disabled: str = _DISABLED
) -> _Refusal | None:
    if not broker.authorizer.is_allowed(context, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _Refusal(code, describe(code))
    return None if broker.authorizer.has_rules else _Refusal(ErrorCode.SECURITY_DISABLED, disabled)


# ---------------------------------------------------------------------------------------------------- translation


def _check_known(numbers: Iterable[int]) -> None:
    """As Kafka does, closes the connection of a client that sends UNKNOWN, but answers a client that sends an undefined
    number.
    """
    if _UNKNOWN in numbers:
        raise UnanswerableError("request", "an ACL has an element that says UNKNOWN")


def _word(words: type[Word], number: int) -> Word:
    try:
        return words(number)
    except ValueError:
        return words(_UNKNOWN)


def _filter(asked: describe_messages.DescribeAclsRequest | delete_messages.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _word(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _word(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _word(Operation, asked.operation),
        _word(Permission, asked.permission_type),
    )


def _new_acl(asked: create_messages.AclCreation) -> Acl:
    return Acl(
        ResourcePattern(
            _word(ResourceType, asked.resource_type),
            asked.resource_name,
            _word(PatternType, asked.resource_pattern_type),
        ),
        AclEntry(
            asked.principal,
            asked.host,
            _word(Operation, asked.operation),
            _word(Permission, asked.permission_type),
        ),
    )


def _described(entry: AclEntry) -> describe_messages.AclDescription:
    return describe_messages.AclDescription(
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _deleted(acl: Acl) -> delete_messages.DeleteAclsMatchingAcl:
    pattern, entry = acl
    return delete_messages.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
