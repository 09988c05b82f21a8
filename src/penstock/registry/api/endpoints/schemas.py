"""Schemas by their identifiers: ids, which count within a context, and guids.

An id names no subject. Where rights are kept, the caller needs to read one of the subjects with that id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

import msgspec
from starlette.responses import Response

from penstock.http.operations import HttpOperation
from penstock.registry.api.answer_cache import CachedHandler
from penstock.registry.api.answers import answer, content_document, raw_answer, schema_document
from penstock.registry.api.calls import Call, Handler
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import PAGE, RENDERING, parameters
from penstock.registry.model import Page, SchemaAnswer
from penstock.registry.names import scope_of
from penstock.registry.operations.lookups import page_of

# Encoded on the loop, in a millisecond or less.
_MOST_CHARACTERS_AT_ONCE = 1 << 20


async def search(call: Call) -> Response:
    query = call.query
    found = await call.service.schemas.search(
        call.qualify(query.text("subjectPrefix")),
        aliases=query.flag("aliases"),
        deleted=query.flag("deleted"),
        latest_only=query.flag("latestOnly"),
        rule_type=query.text("ruleType"),
        page=query.page(),
        is_shown=call.may_read if call.is_limited else None,
    )
    if sum(len(each.text) for each in found) < _MOST_CHARACTERS_AT_ONCE:
        return answer([schema_document(each) for each in found])
    # One by one in a thread: the loop has its turns between them.
    return raw_answer(await asyncio.to_thread(_encode_each, found))


def _encode_each(schemas: Sequence[SchemaAnswer]) -> bytes:
    return b"[" + b",".join(msgspec.json.encode(schema_document(each)) for each in schemas) + b"]"


async def list_types(call: Call) -> Response:
    return answer(await call.service.schemas.types())


async def get_by_id(call: Call) -> Response:
    query, subject = call.query, _subject(call)
    await _check_id(call, call.schema_id, subject)
    found = await call.service.schemas.by_id(
        call.schema_id,
        subject=subject,
        rendering=query.rendering(),
        fetch_max_id=query.flag("fetchMaxId"),
        is_shown=call.may_read if call.is_limited else None,
    )
    return answer(content_document(found))


async def get_text_by_id(call: Call) -> Response:
    subject = _subject(call)
    await _check_id(call, call.schema_id, subject)
    rendering = call.query.rendering()
    return raw_answer(await call.service.schemas.text_by_id(call.schema_id, subject=subject, rendering=rendering))


async def list_subjects_of_id(call: Call) -> Response:
    query, subject = call.query, _subject(call)
    deleted, page = query.flag("deleted"), query.page()
    if not call.is_limited:
        names = await call.service.schemas.subjects_by_id(call.schema_id, subject=subject, deleted=deleted, page=page)
        return answer(names)
    await _check_id(call, call.schema_id, subject)
    names = await call.service.schemas.subjects_by_id(call.schema_id, subject=subject, deleted=deleted)
    return answer(page_of(call.readable(names), page))


async def list_versions_of_id(call: Call) -> Response:
    query, subject = call.query, _subject(call)
    deleted, page = query.flag("deleted"), query.page()
    if call.is_limited:
        await _check_id(call, call.schema_id, subject)
    found = await call.service.schemas.versions_by_id(
        call.schema_id, subject=subject, deleted=deleted, page=Page() if call.is_limited else page
    )
    if call.is_limited:
        found = page_of([each for each in found if call.may_read(each.subject)], page)
    return answer([asdict(each) for each in found])


async def get_by_guid(call: Call) -> Response:
    guid: str = call.request.path_params["guid"]
    await _check_guid(call, guid)
    return answer(content_document(await call.service.schemas.by_guid(guid, rendering=call.query.rendering())))


async def list_ids_of_guid(call: Call) -> Response:
    guid: str = call.request.path_params["guid"]
    await _check_guid(call, guid)
    return answer([asdict(each) for each in await call.service.schemas.ids_by_guid(guid)])


def _subject(call: Call) -> str:
    """Gives the context in which the id counts."""
    return call.qualify(call.query.text("subject"))


async def _check_id(call: Call, schema_id: int, subject: str) -> None:
    if call.is_limited and not await _is_readable(call, schema_id, subject):
        call.api.access.refuse(call.caller, Right.READ, f"id {schema_id}", call.name, "no readable subject has the id")


async def _check_guid(call: Call, guid: str) -> None:
    if not call.is_limited:
        return
    for found in await call.service.schemas.ids_by_guid(guid):
        if await _is_readable(call, found.id, scope_of(found.context)):
            return
    call.api.access.refuse(call.caller, Right.READ, f"guid {guid}", call.name, "no readable subject has the guid")


async def _is_readable(call: Call, schema_id: int, subject: str) -> bool:
    names = await call.service.schemas.subjects_by_id(schema_id, subject=subject, deleted=True)
    return bool(call.readable(names))


OPERATIONS: tuple[HttpOperation[Handler], ...] = (
    HttpOperation(
        "GET",
        "/schemas",
        "ListSchemas",
        "Versions of subjects, at most 1,000 and 64 MiB at once.",
        search,
        "Schemas",
        query=parameters("subjectPrefix", "aliases", "deleted", "latestOnly", "ruleType", *PAGE),
    ),
    HttpOperation("GET", "/schemas/types", "ListTypes", "The formats of schemas.", list_types, "Names"),
    HttpOperation(
        "GET",
        "/schemas/ids/{id}",
        "GetSchema",
        "The schema that the id names; with `subject` also a version of the subject, or of another one, that has it.",
        CachedHandler(get_by_id),
        "Content",
        query=parameters("subject", *RENDERING, "fetchMaxId"),
        errors=(40403,),
    ),
    HttpOperation(
        "GET",
        "/schemas/ids/{id}/schema",
        "GetSchemaText",
        "The text of the schema that the id names, and nothing else.",
        CachedHandler(get_text_by_id),
        "Text",
        query=parameters("subject", *RENDERING),
        errors=(40403,),
    ),
    HttpOperation(
        "GET",
        "/schemas/ids/{id}/subjects",
        "ListSubjectsOfSchema",
        "The subjects that have the schema.",
        list_subjects_of_id,
        "Names",
        query=parameters("subject", "deleted", *PAGE),
        errors=(40403,),
    ),
    HttpOperation(
        "GET",
        "/schemas/ids/{id}/versions",
        "ListVersionsOfSchema",
        "The versions that have the schema.",
        list_versions_of_id,
        "SubjectVersions",
        query=parameters("subject", "deleted", *PAGE),
        errors=(40403,),
    ),
    HttpOperation(
        "GET",
        "/schemas/guids/{guid}",
        "GetSchemaByGuid",
        "The schema that the guid names, in whatever context.",
        CachedHandler(get_by_guid),
        "Content",
        query=parameters(*RENDERING),
        errors=(40403,),
    ),
    HttpOperation(
        "GET",
        "/schemas/guids/{guid}/ids",
        "ListIdsOfGuid",
        "The ids that the schema has, by context.",
        list_ids_of_guid,
        "ContextIds",
        errors=(40403,),
    ),
)
