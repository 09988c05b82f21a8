"""Texts to parsed schemas. Slow for hostile input: runs in a thread, on values that do not change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.core.bounded_cache import BoundedCache
from penstock.registry.model import Content
from penstock.schemas.limits import DEFAULT_LIMITS
from penstock.schemas.parsing import parse
from penstock.schemas.schema import (
    InvalidSchemaError,
    Metadata,
    ParsedSchema,
    Reference,
    ResolvedReference,
    SchemaTags,
    SchemaType,
)

# Parsed schemas take some ten to a hundred times the memory of their texts, so the limit counts the texts: 2 Mi
# characters are a thousand schemas of 2 kB.
_MOST_CHARACTERS = 2 << 20
_MOST_ENTRIES = 2_000

_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A text that can be parsed without further requests."""

    schema_type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    resolved: tuple[ResolvedReference, ...] = ()
    is_new: bool = False

    @property
    def size(self) -> int:
        return len(self.text) + sum(len(each.text) for each in self.resolved)


def _cache() -> BoundedCache[_Key, _Kept]:
    """A large schema takes longest to parse again, so a single one may fill it."""
    return BoundedCache(_MOST_ENTRIES, _MOST_CHARACTERS, most_of_one=_MOST_CHARACTERS)


class Parser:
    """Parses, and caches the last results."""

    def __init__(self) -> None:
        self._parsed: BoundedCache[SchemaSource, ParsedSchema] = _cache()
        self._formatted: BoundedCache[tuple[SchemaSource, str], str] = _cache()

    def known(self, source: SchemaSource) -> ParsedSchema | None:
        """The schema, if it takes no work."""
        return self._parsed.get(source)

    def parse(self, source: SchemaSource) -> ParsedSchema:
        """The schema, or an `InvalidSchemaError`."""
        known = self._parsed.get(source)
        if known is not None:
            return known
        if len(source.text) > DEFAULT_LIMITS.text_bytes and source.is_new:
            raise InvalidSchemaError(f"The schema has more than {DEFAULT_LIMITS.text_bytes} characters")
        parsed = parse(
            source.schema_type, source.text, source.references, source.resolved, DEFAULT_LIMITS, is_new=source.is_new
        )
        self._parsed.put(source, parsed, source.size)
        return parsed

    def formatted(self, source: SchemaSource, format_name: str) -> str:
        key = (source, format_name)
        text = self._formatted.get(key)
        if text is None:
            text = self.parse(source).formatted(format_name)
            self._formatted.put(key, text, len(text) + source.size)
        return text


def found_tags(parsed: ParsedSchema, wanted: Collection[str]) -> tuple[SchemaTags, ...]:
    """Places with one of the tags, with their wanted tags; `*` wants all."""
    if "*" in wanted:
        return tuple(parsed.inline_tags())
    found = (replace(each, tags=tuple(tag for tag in each.tags if tag in wanted)) for each in parsed.inline_tags())
    return tuple(each for each in found if each.tags)


# Formats that give another text than the stored one. All others mean the stored text.
_FORMATS: dict[SchemaType, frozenset[str]] = {
    SchemaType.AVRO: frozenset({"resolved"}),
    SchemaType.JSON: frozenset(),
    SchemaType.PROTOBUF: frozenset({"serialized", "ignore_extensions"}),
}


def needs_parsing(content: Content, format_name: str) -> bool:
    return format_name in _FORMATS[content.schema_type]


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """A version to compare with, which is parsed when its comparison begins."""

    version: int
    metadata: Metadata | None
    source: SchemaSource
    parse: Callable[[SchemaSource], ParsedSchema]

    @property
    def schema(self) -> ParsedSchema:
        try:
            return self.parse(self.source)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(f"Version {self.version}, which is stored, cannot be read: {error}") from None


def source_of(content: Content, resolved: Sequence[ResolvedReference]) -> SchemaSource:
    return SchemaSource(content.schema_type, content.text, content.references, tuple(resolved))
