"""The interface of every format's schema, and the data kept beside its text: references, metadata, rules.

`Metadata` and `RuleSet` are plain data: they are stored, compared and hashed, never executed. Collections in them are
sorted where Confluent's registry sorts them, because their order goes into the hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class InvalidSchemaError(Exception):
    """The text is no schema, or one that is too large to work on; the message is for the caller (42201)."""


class SchemaType(StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Policy(StrEnum):
    """How strictly schemas are compared: LENIENT and LOGICAL change single rules of the formats that know them."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    LOGICAL = "LOGICAL"


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """One name in a schema, and the version of a subject that defines the name."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ResolvedReference:
    """A schema that another one needs, directly or through others. The schemas that it needs itself come before it."""

    name: str
    text: str
    # Its subject and version. Two versions of a schema that refer to the same one need no comparison of it.
    subject: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    sensitive: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        tags: Mapping[str, Iterable[str]] | None = None,
        properties: Mapping[str, str] | None = None,
        sensitive: Iterable[str] = (),
    ) -> Metadata:
        sorted_tags = tuple((path, tuple(sorted(set(values)))) for path, values in sorted((tags or {}).items()))
        return cls(sorted_tags, tuple(sorted((properties or {}).items())), tuple(sorted(set(sensitive))))

    def property(self, name: str) -> str | None:
        return dict(self.properties).get(name)


@dataclass(frozen=True, slots=True)
class Rule:
    name: str | None = None
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class RuleSet:
    migration_rules: tuple[Rule, ...] = ()
    domain_rules: tuple[Rule, ...] = ()
    encoding_rules: tuple[Rule, ...] = ()
    enable_at: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaTags:
    """Tags that a schema has inline, at one place."""

    # Names from the outermost type on, with dots between, without a dot in front.
    entity_path: str
    # "sr_record" or "sr_field".
    entity_type: str
    tags: tuple[str, ...]


_PLACES = re.compile(r"\{(reader|writer|path|info)\}")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference that a reader cannot read.

    `description` has `{reader}` and `{writer}` in place of the two schemas, and `{path}` and `{info}` in place of the
    details.
    """

    kind: str
    path: str
    description: str
    additional_info: str | None = None
    # The quotation mark of the text: Avro's messages have single ones, those of the other formats double ones.
    quote: str = "'"
    # The whole message, for the rare one that is not in the usual form.
    verbatim: str | None = None

    def text(self, reader: str, writer: str) -> str:
        """The message in Confluent's form, with `old` and `new` (or the other way round) for reader and writer."""
        if self.verbatim is not None:
            return self.verbatim
        quote = self.quote
        words = {"reader": reader, "writer": writer, "path": self.path, "info": self.additional_info or ""}
        description = _PLACES.sub(lambda found: words[found[1]], self.description)
        kind = f"{{errorType:{quote}{self.kind}{quote}, description:{quote}{description}{quote}"
        if self.additional_info is None:
            return kind + "}"
        return f"{kind}, additionalInfo:{quote}{self.additional_info}{quote}}}"


class ParsedSchema(Protocol):
    """A parsed schema. It does not change, so the caller may keep it."""

    @property
    def schema_type(self) -> SchemaType: ...

    @property
    def canonical_text(self) -> str:
        """The text that is stored and hashed. Parsing it again gives the same text."""
        ...

    @property
    def references(self) -> tuple[Reference, ...]: ...

    @property
    def name(self) -> str | None:
        """The name of the described type, where the format gives it one."""
        ...

    def normalized(self) -> ParsedSchema:
        """The schema, sorted where the order means nothing."""
        ...

    def formatted(self, format_name: str) -> str:
        """The text in the format of this name; an unknown format is the canonical text."""
        ...

    def has_top_level_field(self, name: str) -> bool: ...

    def inline_tags(self) -> Sequence[SchemaTags]:
        """Records and fields that have tags, with all of their tags."""
        ...

    def retagged_text(self, add: Sequence[SchemaTags], remove: Sequence[SchemaTags]) -> str:
        """The text with other tags; `InvalidSchemaError` if it has no such records or fields."""
        ...

    def differences_from(self, writer: ParsedSchema, policy: Policy) -> Sequence[Difference]:
        """The data of `writer`, a schema of the same format, that this schema cannot read."""
        ...
