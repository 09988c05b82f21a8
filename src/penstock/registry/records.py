"""Keys and values of `_schemas`, as Confluent's registry writes them.

Keys are written in one order, without spaces, because the log cleaner compares bytes. They are read in any order:
other registries wrote other orders. A change that removes a key removes all known spellings of it, see `state`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring as _quote
from typing import NamedTuple, TypeAlias

import msgspec

from penstock.registry.documents import config_from_json, config_to_json, reference_to_json, references_from_json
from penstock.registry.errors import RegistryError
from penstock.registry.model import Config, Content, Mode, StoredSchema
from penstock.registry.names import canonical
from penstock.schemas.contracts import metadata_from_json, metadata_to_json, rule_set_from_json, rule_set_to_json
from penstock.schemas.identity import fingerprint, md5_text
from penstock.schemas.json_text import Json
from penstock.schemas.schema import InvalidSchemaError, Metadata, Reference, RuleSet, SchemaType


class UnreadableRecordError(Exception):
    """A record that is none of ours, or was damaged."""


class SchemaKey(NamedTuple):
    """Most keys are of this kind, so it is a tuple. The others are classes, because equal tuples of two classes are
    equal.
    """

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ConfigKey:
    # "" is the global scope.
    scope: str


@dataclass(frozen=True, slots=True)
class ModeKey:
    scope: str


@dataclass(frozen=True, slots=True)
class DeleteSubjectKey:
    subject: str


@dataclass(frozen=True, slots=True)
class ClearSubjectKey:
    subject: str


@dataclass(frozen=True, slots=True)
class ContextKey:
    tenant: str
    context: str


@dataclass(frozen=True, slots=True)
class NoopKey:
    pass


@dataclass(frozen=True, slots=True)
class OtherKey:
    """A kind of record that has no meaning here: associations."""

    keytype: str


Key: TypeAlias = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | ContextKey | NoopKey | OtherKey
NOOP = NoopKey()
_DEFAULT_TENANT = "default"
_IGNORED_KEYTYPES = frozenset({"ASSOC"})


def context_key(context: str) -> ContextKey:
    return ContextKey(_DEFAULT_TENANT, context)


def encode_key(key: Key) -> bytes:
    match key:
        case SchemaKey(subject, version):
            # Built without a library, because replay compares the key of every record with the key that we would write.
            return b'{"keytype":"SCHEMA","subject":%b,"version":%d,"magic":1}' % (_quote(subject).encode(), version)
        case ConfigKey(scope):
            return _encode({"keytype": "CONFIG", "subject": scope or None, "magic": 0})
        case ModeKey(scope):
            return _encode({"keytype": "MODE", "subject": scope or None, "magic": 0})
        case DeleteSubjectKey(subject):
            return _encode({"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0})
        case ClearSubjectKey(subject):
            return _encode({"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0})
        case ContextKey(tenant, context):
            return _encode({"keytype": "CONTEXT", "tenant": tenant, "context": context})
        case NoopKey():
            return _encode({"keytype": "NOOP", "magic": 0})
        case OtherKey(keytype):
            raise AssertionError(f"{keytype} is never written")


def decode_key(data: bytes) -> Key:
    document = _decode(data)
    keytype = document.get("keytype")
    read = _KEYS.get(keytype) if isinstance(keytype, str) else None
    if read is not None:
        return read(document)
    if isinstance(keytype, str) and keytype in _IGNORED_KEYTYPES:
        return OtherKey(keytype)
    raise UnreadableRecordError(f"The type of the key is {keytype!r}")


def _scope(document: Mapping[str, Json]) -> str:
    return "" if document.get("subject") is None else _subject(document)


def _subject(document: Mapping[str, Json]) -> str:
    return canonical(_text(document, "subject"))


_KEYS: dict[str, Callable[[Mapping[str, Json]], Key]] = {
    "SCHEMA": lambda document: SchemaKey(_subject(document), _number(document, "version")),
    "CONFIG": lambda document: ConfigKey(_scope(document)),
    "MODE": lambda document: ModeKey(_scope(document)),
    "DELETE_SUBJECT": lambda document: DeleteSubjectKey(_subject(document)),
    "CLEAR_SUBJECT": lambda document: ClearSubjectKey(_subject(document)),
    "CONTEXT": lambda document: ContextKey(
        _DEFAULT_TENANT if document.get("tenant") is None else _text(document, "tenant"), _text(document, "context")
    ),
    "NOOP": lambda document: NOOP,
}


@dataclass(frozen=True, slots=True)
class SchemaValue:
    id: int
    content: Content
    deleted: bool


def encode_schema(stored: StoredSchema) -> bytes:
    content = stored.content
    document: dict[str, Json] = {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.id,
        "md5": md5_text(content.md5),
        "schemaType": str(content.schema_type),
    }
    if content.references:
        document["references"] = [reference_to_json(each) for each in content.references]
    if content.metadata is not None:
        document["metadata"] = metadata_to_json(content.metadata)
    if content.rule_set is not None:
        document["ruleSet"] = rule_set_to_json(content.rule_set)
    document["schema"] = content.text
    document["deleted"] = stored.deleted
    return _encode(document)


def decode_schema(data: bytes) -> SchemaValue:
    """The fingerprint is computed, not read: records of other registries lack it, or have one of an older kind."""
    document = _decode(data)
    schema_type = document.get("schemaType")
    if schema_type is None:
        schema_type = "AVRO"
    if not isinstance(schema_type, str) or schema_type not in SchemaType.__members__:
        raise UnreadableRecordError(f"The type of the schema is {schema_type!r}")
    text = document.get("schema")
    if text is not None and not isinstance(text, str):
        raise UnreadableRecordError("The schema is not a string")
    try:
        content = content_of(
            SchemaType(schema_type),
            text or "",
            references_from_json(document["references"]) if "references" in document else (),
            metadata_from_json(document["metadata"]) if "metadata" in document else None,
            rule_set_from_json(document["ruleSet"]) if "ruleSet" in document else None,
        )
    except InvalidSchemaError as error:
        raise UnreadableRecordError(str(error)) from None
    return SchemaValue(_number(document, "id"), content, document.get("deleted") is True)


def content_of(
    schema_type: SchemaType,
    text: str,
    references: tuple[Reference, ...] = (),
    metadata: Metadata | None = None,
    rule_set: RuleSet | None = None,
) -> Content:
    """The content with its fingerprint; `InvalidSchemaError` if it cannot be stored as UTF-8."""
    try:
        md5 = fingerprint(text, references, metadata, rule_set)
    except UnicodeEncodeError:
        raise InvalidSchemaError("The schema has half of a surrogate pair, which no UTF-8 text can have") from None
    return Content(schema_type, text, references, metadata, rule_set, md5)


def encode_config(scope: str, config: Config) -> bytes:
    return _encode({"subject": scope or None, **config_to_json(config)})


def decode_config(data: bytes) -> Config:
    try:
        return config_from_json(_decode(data))
    except (InvalidSchemaError, RegistryError) as error:
        raise UnreadableRecordError(str(error)) from None


def encode_mode(scope: str, mode: Mode) -> bytes:
    return _encode({"subject": scope or None, "mode": str(mode)})


def decode_mode(data: bytes) -> Mode:
    name = _decode(data).get("mode")
    if not isinstance(name, str) or name not in Mode.__members__:
        raise UnreadableRecordError(f"The mode is {name!r}")
    return Mode[name]


def encode_delete_subject(subject: str, version: int) -> bytes:
    return _encode({"subject": subject, "version": version})


def decode_delete_subject(data: bytes) -> int:
    """All versions up to this one are soft-deleted."""
    return _number(_decode(data), "version")


def encode_context(key: ContextKey) -> bytes:
    return _encode({"tenant": key.tenant, "context": key.context})


def encode_noop(highest_ids: Mapping[str, int]) -> bytes | None:
    """Confluent's NOOP has no value, and no registry reads one. Ours keeps the highest id of each context whose schema
    was removed: the record of that schema is compacted away, and the id must not be given again.
    """
    return _encode({"highestIds": dict(highest_ids)}) if highest_ids else None


def decode_noop(data: bytes) -> dict[str, int]:
    ids = _decode(data).get("highestIds")
    if not isinstance(ids, dict):
        return {}
    return {context: each for context, each in ids.items() if isinstance(each, int)}


_encode_text = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _encode(document: Mapping[str, Json]) -> bytes:
    return _encode_text(document).encode()


# Instead of the standard library's decoder: a replay takes two thirds of the time.
_decode_strictly = msgspec.json.Decoder().decode


def _decode(data: bytes) -> dict[str, Json]:
    document: Json
    try:
        document = _decode_strictly(data)
    except (ValueError, RecursionError):
        # Seldom: other registries have written what JSON does not allow, such as halves of surrogate pairs.
        try:
            document = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise UnreadableRecordError(str(error)) from None
    if not isinstance(document, dict):
        raise UnreadableRecordError("The record is not a JSON object")
    return document


def _text(document: Mapping[str, Json], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise UnreadableRecordError(f"{name} is not a string")
    return value


def _number(document: Mapping[str, Json], name: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
        raise UnreadableRecordError(f"{name} is not a number from 0 to 2^31-1")
    return value
