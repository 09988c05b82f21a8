"""Bodies of requests, from JSON to the service's requests. Unknown fields are ignored.

A body of another type is refused with 415, invalid JSON or fields of other types with 400, a missing body with 422. A
body without a type counts as JSON: Confluent's registry takes `application/octet-stream` for JSON, too.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from starlette.requests import Request

from penstock.registry.api.answers import MEDIA_TYPES
from penstock.registry.documents import config_request_from_json
from penstock.registry.errors import RegistryError
from penstock.registry.model import ConfigRequest, SchemaRequest, SchemaTags, TagRequest
from penstock.schemas.contracts import metadata_from_json, rule_set_from_json
from penstock.schemas.json_text import Json
from penstock.schemas.schema import InvalidSchemaError, Metadata, Reference, RuleSet

_ACCEPTED = frozenset((*MEDIA_TYPES, "application/octet-stream"))

_Integer = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_Read = TypeVar("_Read")
_LATEST = -1


class _Reference(msgspec.Struct):
    name: str | None = None
    subject: str | None = None
    version: _Integer | None = None


class _Entity(msgspec.Struct, rename="camel"):
    entity_path: str | None = None
    entity_type: str | None = None


class _Tags(msgspec.Struct, rename="camel"):
    schema_entity: _Entity | None = None
    tags: list[str] | None = None


class SchemaBody(msgspec.Struct, rename="camel"):
    schema: str | None = None
    schema_type: str | None = None
    references: list[_Reference] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    version: _Integer | None = None
    id: _Integer | None = None
    schema_tags_to_add: list[_Tags] | None = None
    schema_tags_to_remove: list[_Tags] | None = None


class TagBody(msgspec.Struct, rename="camel"):
    tags_to_add: list[_Tags] | None = None
    tags_to_remove: list[_Tags] | None = None
    new_version: _Integer | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None


class ModeBody(msgspec.Struct):
    mode: str | None = None


_SCHEMA = msgspec.json.Decoder(SchemaBody | None, strict=False)
_TAGS = msgspec.json.Decoder(TagBody | None, strict=False)
_MODE = msgspec.json.Decoder(ModeBody | None, strict=False)
_CONFIG = msgspec.json.Decoder(dict[str, Any] | None)


async def read_schema(request: Request) -> SchemaRequest:
    body = await _read(request, _SCHEMA)
    metadata, rule_set = _contract(body.metadata, body.rule_set)
    references = tuple(
        Reference(each.name or "", each.subject or "", _LATEST if each.version is None else each.version)
        for each in body.references or ()
    )
    return SchemaRequest(
        text=body.schema or "",
        schema_type=body.schema_type or "",
        references=references,
        metadata=metadata,
        rule_set=rule_set,
        version=body.version or 0,
        id=body.id or 0,
        tags_to_add=_tags(body.schema_tags_to_add),
        tags_to_remove=_tags(body.schema_tags_to_remove),
    )


async def read_tags(request: Request) -> TagRequest:
    body = await _read(request, _TAGS)
    metadata, rule_set = _contract(body.metadata, body.rule_set)
    return TagRequest(
        tags_to_add=_tags(body.tags_to_add),
        tags_to_remove=_tags(body.tags_to_remove),
        new_version=body.new_version or 0,
        metadata=metadata,
        rule_set=rule_set,
    )


async def read_mode(request: Request) -> str:
    return (await _read(request, _MODE)).mode or ""


async def read_config(request: Request) -> ConfigRequest:
    return config_request_from_json(await _read(request, _CONFIG))


# ------------------------------------------------------------------------------------------------- parts


async def _read(request: Request, decoder: msgspec.json.Decoder[_Read | None]) -> _Read:
    _check_type(request)
    body = await request.body()
    if not body:
        raise RegistryError(422, "The request has no body")
    try:
        read = decoder.decode(body)
    except UnicodeDecodeError:  # msgspec's message names a place in a text, and not in the body
        raise _unreadable("a text in it is no UTF-8") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _unreadable(str(error)) from None
    if read is None:
        raise RegistryError(422, "The request has no body")
    return read


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if (kind and kind not in _ACCEPTED) or encoding != "identity":
        raise RegistryError(415, "HTTP 415 Unsupported Media Type")


def _unreadable(detail: str) -> RegistryError:
    return RegistryError(400, f"The request is not readable: {detail}")


def _contract(metadata: Json, rule_set: Json) -> tuple[Metadata | None, RuleSet | None]:
    try:
        return metadata_from_json(metadata), rule_set_from_json(rule_set)
    except InvalidSchemaError as error:
        raise _unreadable(str(error)) from None


def _tags(tags: list[_Tags] | None) -> tuple[SchemaTags, ...]:
    return tuple(
        SchemaTags(each.schema_entity.entity_path or "", each.schema_entity.entity_type or "", tuple(each.tags or ()))
        for each in tags or ()
        if each.schema_entity is not None
    )
