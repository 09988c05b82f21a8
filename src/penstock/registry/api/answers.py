"""What is answered, as JSON. Fields that are empty are left out; `schemaType` always stands there, as since 8.0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from starlette.responses import Response

from penstock.http.routes import ErrorForm
from penstock.registry.documents import config_request_to_json, reference_to_json
from penstock.registry.errors import RegistryError
from penstock.registry.model import ConfigRequest, Content, ContentAnswer, SchemaAnswer, SchemaTags
from penstock.schemas.contracts import metadata_to_json, rule_set_to_json
from penstock.schemas.schema import Reference

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")

Document = dict[str, object]


def answer(document: object, status: int = 200) -> Response:
    return raw_answer(msgspec.json.encode(document), status)


def raw_answer(body: bytes | str, status: int = 200) -> Response:
    return Response(body, status, media_type=MEDIA_TYPE)


def error_answer(error: RegistryError) -> Response:
    return raw_answer(write_error(error.code, error.message), error.status)


def write_error(code: int, message: str) -> bytes:
    # What a caller sent may stand in the message, and not everything that Python has in a string is Unicode.
    text = message.encode("utf-8", "replace").decode()
    return msgspec.json.encode({"error_code": code, "message": text})


# For what is refused before an operation runs: no such page, no login, too large a body.
ERRORS = ErrorForm(MEDIA_TYPE, write_error)


def content_document(content: ContentAnswer) -> Document:
    document = _content(content.content, content.text, content.references, content.schema_tags)
    document["guid"] = content.content.guid
    if content.max_id is not None:
        document["maxId"] = content.max_id
    return document


def schema_document(schema: SchemaAnswer) -> Document:
    stored = schema.stored
    document: Document = {"subject": stored.subject, **registered_document(schema)}
    if stored.deleted:
        document["deleted"] = True
    return document


def registered_document(schema: SchemaAnswer) -> Document:
    content = _content(schema.stored.content, schema.text, schema.references, schema.schema_tags)
    return identity_document(schema) | content


def identity_document(schema: SchemaAnswer) -> Document:
    stored = schema.stored
    return {"version": stored.version, "id": stored.id, "guid": stored.guid}


def _content(
    content: Content, text: str, references: Sequence[Reference], schema_tags: Iterable[SchemaTags]
) -> Document:
    document: Document = {"schemaType": content.schema_type.value, "schema": text}
    if references:
        document["references"] = [reference_to_json(each) for each in references]
    if content.metadata is not None:
        document["metadata"] = metadata_to_json(content.metadata)
    if content.rule_set is not None:
        document["ruleSet"] = rule_set_to_json(content.rule_set)
    tags = [
        {"schemaEntity": {"entityPath": each.entity_path, "entityType": each.entity_type}, "tags": list(each.tags)}
        for each in schema_tags
    ]
    return document | {"schemaTags": tags} if tags else document


def changed_document(request: ConfigRequest) -> Document:
    """A change as its caller wrote it: what it unsets is left out."""
    return {name: value for name, value in config_request_to_json(request).items() if value is not None}
