"""Subjects and their versions."""

from __future__ import annotations

from starlette.responses import Response

from penstock.registry.api.answers import answer, identity_document, raw_answer, registered_document, schema_document
from penstock.registry.api.bodies import read_schema, read_tags
from penstock.registry.api.calls import Call
from penstock.registry.api.operation import DELETED, PAGE, RENDERING, Operation
from penstock.registry.api.rights import Right
from penstock.registry.operations.finding import page_of


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
    """The schema itself is told where the caller does not know it: a config has added to its contract, or the caller
    wants another format. Clients keep what is told here, and one that knows Protobuf in its serialized form alone
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
        # A name without a context may be found in any of them.
        found = await call.service.subjects.version(call.subject, call.version)
        call.check(Right.WRITE, found.stored.subject)
    made = await call.service.subjects.change_tags(call.subject, call.version, body)
    call.details |= {"version": made.stored.version, "id": made.stored.id}
    return answer(registered_document(made))


OPERATIONS = (
    Operation(
        "GET",
        "/subjects",
        "ListSubjects",
        list_subjects,
        "The names of the subjects.",
        "Names",
        ("subjectPrefix", *DELETED, *PAGE),
    ),
    Operation(
        "POST",
        "/subjects/{subject}",
        "LookUpSchema",
        look_up,
        "The version of the subject that has this schema.",
        "Schema",
        ("normalize", "deleted", *RENDERING),
        "SchemaRequest",
        (40401, 40403, 42201),
        Right.READ,
    ),
    Operation(
        "DELETE",
        "/subjects/{subject}",
        "DeleteSubject",
        delete_subject,
        "Deletes all versions of the subject: softly, or for good what is deleted softly.",
        "Numbers",
        ("permanent",),
        "",
        (40401, 40404, 40405, 42205, 42206),
        Right.DELETE,
        is_change=True,
    ),
    Operation(
        "GET",
        "/subjects/{subject}/metadata",
        "FindSchemaByMetadata",
        find_by_metadata,
        "The newest version whose metadata has all these properties.",
        "Schema",
        ("key", "value", "deleted", *RENDERING),
        "",
        (40401, 40403),
        Right.READ,
    ),
    Operation(
        "GET",
        "/subjects/{subject}/versions",
        "ListVersions",
        list_versions,
        "The versions of the subject.",
        "Numbers",
        (*DELETED, "deletedAsNegative", *PAGE),
        "",
        (40401,),
        Right.READ,
    ),
    Operation(
        "POST",
        "/subjects/{subject}/versions",
        "RegisterSchema",
        register,
        "The version that has this schema; a new one, if none has it and the schema fits the versions before.",
        "Registered",
        ("normalize", "format", "force"),
        "SchemaRequest",
        (409, 42201, 42205, 42207, 42209, 42210),
        Right.WRITE,
        is_change=True,
    ),
    Operation(
        "GET",
        "/subjects/{subject}/versions/{version}",
        "GetVersion",
        get_version,
        "One version of the subject.",
        "Schema",
        ("deleted", *RENDERING),
        "",
        (40401, 40402, 42202),
        Right.READ,
        is_kept=True,
    ),
    Operation(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        "GetVersionText",
        get_text,
        "The text of one version, and nothing else.",
        "Text",
        ("deleted", *RENDERING),
        "",
        (40401, 40402, 42202),
        Right.READ,
    ),
    Operation(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        "ListReferring",
        list_referring,
        "The ids of the schemas that refer to the version.",
        "Numbers",
        ("deleted", *PAGE),
        "",
        (40401, 40402, 42202),
        Right.READ,
    ),
    Operation(
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        "DeleteVersion",
        delete_version,
        "Deletes one version: softly, or for good what is deleted softly.",
        "Number",
        ("permanent",),
        "",
        (40401, 40402, 40406, 40407, 42202, 42205, 42206),
        Right.DELETE,
        is_change=True,
    ),
    Operation(
        "POST",
        "/subjects/{subject}/versions/{version}/tags",
        "ChangeTags",
        change_tags,
        "Registers the version once more, with other inline tags.",
        "Registered",
        (),
        "TagRequest",
        (40401, 40402, 42201, 42202, 42205),
        Right.WRITE,
        is_change=True,
    ),
)
