"""The JSON of answers. Empty fields are left out; `schemaType` is always present, as since 8.0."""

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
# The answer's type for a client that accepts several equally: the first.
MEDIA_TYPES = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")

Document = dict[str, object]


def answer(document: object, status: int = 200) -> Response:
    return raw_answer(msgspec.json.encode(document), status)


def raw_answer(body: bytes | str, status: int = 200) -> Response:
    return Response(body, status, media_type=MEDIA_TYPE)


def with_type(response: Response, media_type: str) -> Response:
    """A copy: the cache may keep the answer itself for callers that prefer another type."""
    copy = Response(response.body, response.status_code)
    kind = b"content-type"
    copy.raw_headers = [(name, media_type.encode() if name == kind else value) for name, value in response.raw_headers]
    return copy


def error_answer(error: RegistryError) -> Response:
    return raw_answer(write_error(error.code, error.message), error.status)


def write_error(code: int, message: str) -> bytes:
    # The message may contain a caller's text, and not every Python string is valid Unicode.
    text = message.encode("utf-8", "replace").decode()
    return msgspec.json.encode({"error_code": code, "message": text})


# For refusals before an operation runs: no such page, no login, too large a body.
ERRORS = ErrorForm(MEDIA_TYPE, write_error)


def content_document(content: ContentAnswer) -> Document:
    document = _content(content.content, content.text, content.references, content.schema_tags)
    document["guid"] = content.content.guid
    if content.told is not None:
        document |= {"subject": content.told.subject, "version": content.told.version}
        document |= {"deleted": True} if content.told.deleted else {}
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
    """A change as its caller wrote it: leaves out the fields that it unsets."""
    return {name: value for name, value in config_request_to_json(request).items() if value is not None}
