"""Checks whether the registry would accept a schema."""

from __future__ import annotations

from starlette.responses import Response

from penstock.http.operations import HttpOperation
from penstock.registry.api.answers import answer
from penstock.registry.api.bodies import read_schema
from penstock.registry.api.calls import Call, Handler
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import parameters
from penstock.registry.model import CompatibilityAnswer


async def check_version(call: Call) -> Response:
    query, body = call.query, await read_schema(call.request)
    call.check_references(body.references)
    await call.check_numbers()
    found = await call.service.compatibility.with_version(
        call.subject, call.version, body, normalize=query.flag("normalize"), verbose=query.flag("verbose")
    )
    return _answer(found)


async def check_subject(call: Call) -> Response:
    query, body = call.query, await read_schema(call.request)
    call.check_references(body.references)
    await call.check_numbers()
    found = await call.service.compatibility.with_subject(
        call.subject, body, normalize=query.flag("normalize"), verbose=query.flag("verbose")
    )
    return _answer(found)


def _answer(found: CompatibilityAnswer) -> Response:
    messages = {"messages": list(found.messages)} if found.messages else {}
    return answer({"is_compatible": found.is_compatible, **messages})


OPERATIONS: tuple[HttpOperation[Handler], ...] = (
    HttpOperation(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        "CheckAgainstVersion",
        "Whether the schema fits one version; whatever fits where there is no latest one.",
        check_version,
        "Compatibility",
        "SchemaRequest",
        query=parameters("normalize", "verbose"),
        errors=(40402, 42201, 42202),
        right=Right.READ,
    ),
    HttpOperation(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        "CheckAgainstSubject",
        "Whether the schema would be registered.",
        check_subject,
        "Compatibility",
        "SchemaRequest",
        query=parameters("normalize", "verbose"),
        errors=(42201,),
        right=Right.READ,
    ),
)
