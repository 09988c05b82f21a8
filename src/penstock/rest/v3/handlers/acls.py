"""ACLs: searched, created one by one or many at once, deleted by a filter."""

from __future__ import annotations

import enum
from typing import TypeVar

import penstock.admin.queries.acls as queries
from penstock.admin.queries.acls import exact_filter
from penstock.protocol.messages.create_acls import CreateAclsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsResponse
from penstock.protocol.messages.describe_acls import DescribeAclsResponse
from penstock.rest.errors import RestError
from penstock.rest.v3.bodies import NewAcl, NewAcls
from penstock.rest.v3.calls import Call, Done, check
from penstock.rest.v3.shapes import Acl as AclRow
from penstock.rest.v3.shapes import AclList, DeletedAcls, ListMetadata, Metadata
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

Word = TypeVar("Word", bound=enum.IntEnum)


def _word(kind: type[Word], text: str, name: str) -> Word:
    """UNKNOWN is the brokers' answer for words that are newer than the client. A broker closes the connection on a
    request with it.
    """
    if text.upper() not in kind.__members__ or text.upper() == "UNKNOWN":
        raise RestError(400, f"Bad Request: {name} {text!r} is not known")
    return kind[text.upper()]


_WORDS = ("resource_type", "pattern_type", "operation", "permission")


def _read_filter(call: Call) -> AclFilter:
    """An empty text means any."""
    asked, default = call.query, "ANY"
    return AclFilter(
        _word(ResourceType, asked.get("resource_type") or default, "resource_type"),
        asked.get("resource_name") or None,
        _word(PatternType, asked.get("pattern_type") or default, "pattern_type"),
        asked.get("principal") or None,
        asked.get("host") or None,
        _word(Operation, asked.get("operation") or default, "operation"),
        _word(Permission, asked.get("permission") or default, "permission"),
    )


def _query(rule: AclFilter) -> dict[str, str]:
    return {
        "resource_type": rule.type.name,
        "resource_name": rule.name or "",
        "pattern_type": rule.pattern.name,
        "principal": rule.principal or "",
        "host": rule.host or "",
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }


def _row(call: Call, acl: Acl) -> AclRow:
    query = _query(exact_filter(acl))
    link = call.cluster.asking("acls", query)
    return AclRow(metadata=Metadata(link=link, resource_name=None), cluster_id=call.cluster_id, **query)


async def list_acls(call: Call) -> AclList:
    wanted = _read_filter(call)
    answer: DescribeAclsResponse = await call.brokers.ask(queries.describe_acls(wanted), retry=True)
    check(answer.error_code, answer.error_message)
    metadata = ListMetadata(link=call.cluster.asking("acls", _query(wanted)))
    return AclList(metadata=metadata, data=[_row(call, acl) for acl in queries.read_acls(answer)])


def _new_acl(body: NewAcl) -> Acl:
    """Words that stand for several values are for filters alone."""
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
    return Acl(
        ResourcePattern(resource_type, body.resource_name, pattern_type),
        AclEntry(body.principal, body.host, operation, permission),
    )


async def _create(call: Call, bodies: list[NewAcl]) -> None:
    request = queries.create_acls(_new_acl(body) for body in bodies)
    answer: CreateAclsResponse = await call.brokers.ask_controller(request, retry=True)
    for result in answer.results:
        check(result.error_code, result.error_message)


async def create_acl(call: Call) -> Done:
    body = call.read(NewAcl)
    await _create(call, [body])
    return Done(location=call.cluster.asking("acls", _query(exact_filter(_new_acl(body)))))


async def create_acls(call: Call) -> None:
    body = call.read(NewAcls)
    if body.data:
        await _create(call, body.data)


async def delete_acls(call: Call) -> DeletedAcls:
    """A deletion needs at least four words, so that an empty query does not delete everything."""
    for name in _WORDS:
        if not call.query.get(name):
            raise RestError(400, f"Bad Request: {name} cannot be unspecified")
    wanted = _read_filter(call)
    answer: DeleteAclsResponse = await call.brokers.ask_controller(queries.delete_acls([wanted]))
    deleted: list[Acl] = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for row in result.matching_acls:
            check(row.error_code, row.error_message)
        deleted += queries.read_deleted_acls(result)
    return DeletedAcls([_row(call, acl) for acl in sorted(deleted)])
