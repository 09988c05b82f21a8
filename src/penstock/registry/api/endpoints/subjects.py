"""Subjects and their versions."""

from __future__ import annotations

from starlette.responses import Response

from penstock.http.operations import HttpOperation
from penstock.registry.api.answer_cache import CachedHandler
from penstock.registry.api.answers import answer, identity_document, raw_answer, registered_document, schema_document
from penstock.registry.api.bodies import read_schema, read_tags
from penstock.registry.api.calls import Call, Handler
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import DELETED, PAGE, RENDERING, parameters
from penstock.registry.operations.lookups import page_of


async def list_subjects(call: Call) -> Response:
    query = call.query
    prefix, deleted, page = call.qualify(query.text("subjectPrefix")), query.deleted(), query.page()
    if not call.is_limited:
        return answer(await call.service.subjects.names(prefix, deleted=deleted, page=page))
    names = await call.service.subjects.names(prefix, deleted=deleted)
    return answer(page_of(call.readable(names), page))


async def look_up(call: Call) -> Response:
    query, body = call.query, await read_schema(call.request)
    call.check_references(body.references)
    found = await call.service.subjects.lookup(
        call.subject,
        body,
        normalize=query.flag("normalize"),
        deleted=query.flag("deleted"),
        rendering=query.rendering(),
    )
    call.check_found(found)
    return answer(schema_document(found))


async def delete_subject(call: Call) -> Response:
    is_permanent = call.query.flag("permanent")
    call.details["permanent"] = is_permanent
    return answer(await call.service.subjects.delete(call.subject, permanent=is_permanent))


async def find_by_metadata(call: Call) -> Response:
    query = call.query
    properties = dict(zip(query.texts("key"), query.texts("value"), strict=False))
    found = await call.service.subjects.latest_with_metadata(
        call.subject, properties, deleted=query.flag("deleted"), rendering=query.rendering()
    )
    call.check_found(found)
    return answer(schema_document(found))


async def list_versions(call: Call) -> Response:
    query = call.query
    await call.check_numbers()
    negative = query.flag("deletedAsNegative")
    versions = await call.service.subjects.versions(
        call.subject, deleted=query.deleted(), negative=negative, page=query.page()
    )
    return answer(versions)


async def register(call: Call) -> Response:
    """The answer has the schema itself where the caller does not know it: a config has added to its contract, or the
    caller wants another format. Clients keep this answer, and a client that knows Protobuf in its serialized form alone
    (confluent-kafka) would fail over the text.
    """
    query, body = call.query, await read_schema(call.request)
    call.check_references(body.references)
    made = await call.service.subjects.register(
        call.subject,
        body,
        normalize=query.flag("normalize"),
        force=query.flag("force"),
        rendering=query.rendering(),
    )
    content = made.stored.content
    call.details |= {"version": made.stored.version, "id": made.stored.id}
    is_news = bool(query.text("format")) or (content.metadata, content.rule_set) != (body.metadata, body.rule_set)
    return answer(registered_document(made) if is_news else identity_document(made))


async def get_version(call: Call) -> Response:
    query = call.query
    found = await call.service.subjects.version(
        call.subject, call.version, deleted=query.flag("deleted"), rendering=query.rendering()
    )
    call.check_found(found)
    return answer(schema_document(found))


async def get_text(call: Call) -> Response:
    query = call.query
    if call.is_limited:
        call.check_found(await call.service.subjects.version(call.subject, call.version, deleted=query.flag("deleted")))
    text = await call.service.subjects.text(
        call.subject, call.version, deleted=query.flag("deleted"), rendering=query.rendering()
    )
    return raw_answer(text)


async def list_referring(call: Call) -> Response:
    query = call.query
    await call.check_numbers()
    ids = await call.service.subjects.referenced_by(
        call.subject, call.version, deleted=query.flag("deleted"), page=query.page()
    )
    return answer(ids)


async def delete_version(call: Call) -> Response:
    is_permanent = call.query.flag("permanent")
    call.details |= {"version": call.version, "permanent": is_permanent}
    return answer(await call.service.subjects.delete_version(call.subject, call.version, permanent=is_permanent))


async def change_tags(call: Call) -> Response:
    body = await read_tags(call.request)
    if call.is_limited:
        # A name without a context may be found in any context.
        found = await call.service.subjects.version(call.subject, call.version)
        call.check(Right.WRITE, found.stored.subject)
    made = await call.service.subjects.change_tags(call.subject, call.version, body)
    call.details |= {"version": made.stored.version, "id": made.stored.id}
    return answer(registered_document(made))


OPERATIONS: tuple[HttpOperation[Handler], ...] = (
    HttpOperation(
        "GET",
        "/subjects",
        "ListSubjects",
        "The names of the subjects.",
        list_subjects,
        "Names",
        query=parameters("subjectPrefix", *DELETED, *PAGE),
    ),
    HttpOperation(
        "POST",
        "/subjects/{subject}",
        "LookUpSchema",
        "The version of the subject that has this schema.",
        look_up,
        "Schema",
        "SchemaRequest",
        query=parameters("normalize", "deleted", *RENDERING),
        errors=(40401, 40403, 42201),
        right=Right.READ,
    ),
    HttpOperation(
        "DELETE",
        "/subjects/{subject}",
        "DeleteSubject",
        "Deletes all versions of the subject: softly, or for good what is deleted softly.",
        delete_subject,
        "Numbers",
        query=parameters("permanent"),
        errors=(40401, 40404, 40405, 42205, 42206),
        right=Right.DELETE,
    ),
    HttpOperation(
        "GET",
        "/subjects/{subject}/metadata",
        "FindSchemaByMetadata",
        "The newest version whose metadata has all these properties.",
        find_by_metadata,
        "Schema",
        query=parameters("key", "value", "deleted", *RENDERING),
        errors=(40401, 40403),
        right=Right.READ,
    ),
    HttpOperation(
        "GET",
        "/subjects/{subject}/versions",
        "ListVersions",
        "The versions of the subject.",
        list_versions,
        "Numbers",
        query=parameters(*DELETED, "deletedAsNegative", *PAGE),
        errors=(40401,),
        right=Right.READ,
    ),
    HttpOperation(
        "POST",
        "/subjects/{subject}/versions",
        "RegisterSchema",
        "The version that has this schema; a new one, if none has it and the schema fits the versions before.",
        register,
        "Registered",
        "SchemaRequest",
        query=parameters("normalize", "format", "force"),
        errors=(409, 42201, 42205, 42207, 42209, 42210),
        right=Right.WRITE,
    ),
    HttpOperation(
        "GET",
        "/subjects/{subject}/versions/{version}",
        "GetVersion",
        "One version of the subject.",
        CachedHandler(get_version),
        "Schema",
        query=parameters("deleted", *RENDERING),
        errors=(40401, 40402, 42202),
        right=Right.READ,
    ),
    HttpOperation(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        "GetVersionText",
        "The text of one version, and nothing else.",
        get_text,
        "Text",
        query=parameters("deleted", *RENDERING),
        errors=(40401, 40402, 42202),
        right=Right.READ,
    ),
    HttpOperation(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        "ListReferring",
        "The ids of the schemas that refer to the version.",
        list_referring,
        "Numbers",
        query=parameters("deleted", *PAGE),
        errors=(40401, 40402, 42202),
        right=Right.READ,
    ),
    HttpOperation(
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        "DeleteVersion",
        "Deletes one version: softly, or for good what is deleted softly.",
        delete_version,
        "Number",
        query=parameters("permanent"),
        errors=(40401, 40402, 40406, 40407, 42202, 42205, 42206),
        right=Right.DELETE,
    ),
    HttpOperation(
        "POST",
        "/subjects/{subject}/versions/{version}/tags",
        "ChangeTags",
        "Registers the version once more, with other inline tags.",
        change_tags,
        "Registered",
        "TagRequest",
        errors=(40401, 40402, 42201, 42202, 42205),
        right=Right.WRITE,
    ),
)
