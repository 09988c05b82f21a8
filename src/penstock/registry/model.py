"""The data that the registry stores, its requests and its answers. All of it is immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.schemas.compatibility import Level
from penstock.schemas.identity import guid
from penstock.schemas.schema import Metadata, Policy, Reference, RuleSet, SchemaType
from penstock.schemas.schema import SchemaTags as SchemaTags


class Mode(StrEnum):
    """The permitted writes: all, none, schemas with ids of their own, or those of a leader elsewhere."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"


class Deleted(StrEnum):
    """The versions in a list: those that are not soft-deleted, all, or the soft-deleted ones."""

    LEFT_OUT = "left out"
    INCLUDED = "included"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an id. One object, however many subjects have it."""

    schema_type: SchemaType
    # Canonical; as it was stored, if another registry wrote it.
    text: str
    references: tuple[Reference, ...]
    metadata: Metadata | None
    rule_set: RuleSet | None
    md5: bytes

    @property
    def guid(self) -> str:
        return guid(self.md5)

    @property
    def key(self) -> bytes:
        """Equal content has equal keys: the fingerprint does not cover the type. Bytes, not a tuple: there are as many
        keys as schemas, and the garbage collector looks into every tuple."""
        return key_of(self.schema_type, self.md5)


def key_of(schema_type: SchemaType, md5: bytes) -> bytes:
    return md5 + schema_type.encode()


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject."""

    # With its context, if that is not the default one: `:.context:name`.
    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False

    @property
    def guid(self) -> str:
        return self.content.guid


@dataclass(frozen=True, slots=True)
class SchemaAnswer:
    """A version of a subject in an answer: `text` and `references` are in the formats that the caller named."""

    stored: StoredSchema
    text: str
    references: tuple[Reference, ...]
    schema_tags: tuple[SchemaTags, ...] = ()
    # Aliases of this subject, in a search for them.
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContentAnswer:
    """A schema by its id or guid."""

    content: Content
    text: str
    references: tuple[Reference, ...]
    schema_tags: tuple[SchemaTags, ...] = ()
    # The highest id of the context, if the caller wants it.
    max_id: int | None = None
    # A version that has the schema, if the request names a subject.
    told: StoredSchema | None = None


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ContextId:
    context: str
    id: int


@dataclass(frozen=True, slots=True)
class CompatibilityAnswer:
    is_compatible: bool
    # Empty unless the caller wants the reasons.
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """The body of a registration, a lookup or a compatibility check."""

    text: str = ""
    # As the caller wrote it; "" is Avro. The service refuses an unknown type (42201).
    schema_type: str = ""
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    # 0 or less: none was given.
    version: int = 0
    id: int = 0
    tags_to_add: tuple[SchemaTags, ...] = ()
    tags_to_remove: tuple[SchemaTags, ...] = ()


@dataclass(frozen=True, slots=True)
class TagRequest:
    """The body of a change of tags."""

    tags_to_add: tuple[SchemaTags, ...] = ()
    tags_to_remove: tuple[SchemaTags, ...] = ()
    # The version that the caller wants to make; 0: the next one.
    new_version: int = 0
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None


@dataclass(frozen=True, slots=True)
class Rendering:
    """The form in which a caller wants a schema."""

    # Of the text: "", "resolved" (Avro), "serialized", "ignore_extensions" (Protobuf). Unknown ones mean "".
    format: str = ""
    # Of the subjects in references: "" or "qualified", with their context. Unknown ones mean "".
    reference_format: str = ""
    # Inline tags to look for; "*" finds all.
    find_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; a negative limit means no limit of the caller's."""

    offset: int = 0
    limit: int = -1


@dataclass(frozen=True, slots=True)
class Config:
    """Settings at one scope, or merged ones. None: not set."""

    compatibility_level: Level | None = None
    alias: str | None = None
    # Kept and returned for keys that are encrypted elsewhere; nothing here follows it.
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_policy: Policy | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """A change of settings: fields that the caller named, by the names of `Config`. None unsets a field."""

    changes: Mapping[str, Any] = field(default_factory=dict)
