"""Rights: searched, made one by one or many at once, deleted by a filter."""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeVar

from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from penstock.rest.errors import RestError
from penstock.rest.v3.bodies import NewAcl, NewAcls
from penstock.rest.v3.calls import Call, Done, check
from penstock.rest.v3.shapes import Acl, AclList, DeletedAcls, ListMetadata, Metadata
from penstock.security.acls.types import Operation, PatternType, Permission, ResourceType

Word = TypeVar("Word", bound=enum.IntEnum)


class _Filter(NamedTuple):
    """What the query asks for. An empty text is any."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission


class _Rule(NamedTuple):
    """In the order in which rules are listed."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


def _word(kind: type[Word], text: str, name: str) -> Word:
    """UNKNOWN is what brokers say of words that are newer than the client. A broker that is asked for it hangs up."""
    if text.upper() not in kind.__members__ or text.upper() == "UNKNOWN":
        raise RestError(400, f"Bad Request: {name} {text!r} is not known")
    return kind[text.upper()]


def _name(kind: type[Word], number: int) -> str:
    """A broker may be newer than this program."""
    return kind(number).name if number in kind.__members__.values() else "UNKNOWN"


_WORDS = ("resource_type", "pattern_type", "operation", "permission")


def _read_filter(call: Call) -> _Filter:
    asked, default = call.query, "ANY"
    return _Filter(
        _word(ResourceType, asked.get("resource_type") or default, "resource_type"),
        asked.get("resource_name", ""),
        _word(PatternType, asked.get("pattern_type") or default, "pattern_type"),
        asked.get("principal", ""),
        asked.get("host", ""),
        _word(Operation, asked.get("operation") or default, "operation"),
        _word(Permission, asked.get("permission") or default, "permission"),
    )


def _query(rule: _Filter | _Rule) -> dict[str, str]:
    return {
        "resource_type": _name(ResourceType, rule.resource_type),
        "resource_name": rule.resource_name,
        "pattern_type": _name(PatternType, rule.pattern_type),
        "principal": rule.principal,
        "host": rule.host,
        "operation": _name(Operation, rule.operation),
        "permission": _name(Permission, rule.permission),
    }


def _acl(call: Call, rule: _Rule) -> Acl:
    query = _query(rule)
    link = call.cluster.asking("acls", query)
    return Acl(metadata=Metadata(link=link, resource_name=None), cluster_id=call.cluster_id, **query)


async def list_acls(call: Call) -> AclList:
    wanted = _read_filter(call)
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name or None,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal or None,
        host_filter=wanted.host or None,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer: DescribeAclsResponse = await call.brokers.ask(request, retry=True)
    check(answer.error_code, answer.error_message)
    rules = sorted(
        _Rule(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
        for resource in answer.resources
        for row in resource.acls
    )
    metadata = ListMetadata(link=call.cluster.asking("acls", _query(wanted)))
    return AclList(metadata=metadata, data=[_acl(call, rule) for rule in rules])


def _creation(body: NewAcl) -> AclCreation:
    """Words that stand for several are for filters alone."""
    resource_type = _word(ResourceType, body.resource_type, "resource_type")
    pattern_type = _word(PatternType, body.pattern_type, "pattern_type")
    operation = _word(Operation, body.operation, "operation")
    permission = _word(Permission, body.permission, "permission")
    words: dict[str, enum.IntEnum] = {
        "resource_type": resource_type,
        "pattern_type": pattern_type,
        "operation": operation,
        "permission": permission,
    }
    for name, word in words.items():
        if word.name in ("ANY", "MATCH"):
            raise RestError(400, f"Bad Request: {name} cannot be {word.name}")
    return AclCreation(
        resource_type=resource_type,
        resource_name=body.resource_name,
        resource_pattern_type=pattern_type,
        principal=body.principal,
        host=body.host,
        operation=operation,
        permission_type=permission,
    )


async def _create(call: Call, bodies: list[NewAcl]) -> None:
    request = CreateAclsRequest(creations=[_creation(body) for body in bodies])
    answer: CreateAclsResponse = await call.brokers.ask_controller(request, retry=True)
    for result in answer.results:
        check(result.error_code, result.error_message)


async def create_acl(call: Call) -> Done:
    body = call.read(NewAcl)
    await _create(call, [body])
    made = _creation(body)
    rule = _Rule(
        made.resource_type,
        made.resource_name,
        made.resource_pattern_type,
        made.principal,
        made.host,
        made.operation,
        made.permission_type,
    )
    return Done(location=call.cluster.asking("acls", _query(rule)))


async def create_acls(call: Call) -> None:
    body = call.read(NewAcls)
    if body.data:
        await _create(call, body.data)


async def delete_acls(call: Call) -> DeletedAcls:
    """What is deleted is said in four words at least, so that an empty query does not delete everything."""
    for name in _WORDS:
        if not call.query.get(name):
            raise RestError(400, f"Bad Request: {name} cannot be unspecified")
    wanted = _read_filter(call)
    asked = DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name or None,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal or None,
        host_filter=wanted.host or None,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer: DeleteAclsResponse = await call.brokers.ask_controller(DeleteAclsRequest(filters=[asked]))
    rules: list[_Rule] = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for row in result.matching_acls:
            check(row.error_code, row.error_message)
            rules.append(
                _Rule(
                    row.resource_type,
                    row.resource_name,
                    row.pattern_type,
                    row.principal,
                    row.host,
                    row.operation,
                    row.permission_type,
                )
            )
    return DeletedAcls([_acl(call, rule) for rule in sorted(rules)])
