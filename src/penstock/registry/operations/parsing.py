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

# Parsed schemas take some ten to a hundred times the memory of their texts, so the texts are what is counted: 2 Mi
# characters are a thousand schemas of 2 kB.
_MOST_CHARACTERS = 2 << 20
_MOST_ENTRIES = 2_000

_Key = TypeVar("_Key", bound=Hashable)
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class Source:
    """Text that can be parsed without asking anybody."""

    schema_type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    resolved: tuple[ResolvedReference, ...] = ()
    is_new: bool = False

    @property
    def size(self) -> int:
        return len(self.text) + sum(len(each.text) for each in self.resolved)


def _cache() -> BoundedCache[_Key, _Kept]:
    """A large schema is what takes longest to parse again, so that a single one may fill it."""
    return BoundedCache(_MOST_ENTRIES, _MOST_CHARACTERS, most_of_one=_MOST_CHARACTERS)


class Parser:
    """Parses, and keeps what was parsed last."""

    def __init__(self) -> None:
        self._parsed: BoundedCache[Source, ParsedSchema] = _cache()
        self._formatted: BoundedCache[tuple[Source, str], str] = _cache()

    def known(self, source: Source) -> ParsedSchema | None:
        """The schema, if it takes no work."""
        return self._parsed.get(source)

    def parse(self, source: Source) -> ParsedSchema:
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

    def formatted(self, source: Source, format_name: str) -> str:
        key = (source, format_name)
        text = self._formatted.get(key)
        if text is None:
            text = self.parse(source).formatted(format_name)
            self._formatted.put(key, text, len(text) + source.size)
        return text


def found_tags(parsed: ParsedSchema, wanted: Collection[str]) -> tuple[SchemaTags, ...]:
    """Places that have one of the tags, with those of their tags that are wanted; `*` wants all."""
    if "*" in wanted:
        return tuple(parsed.inline_tags())
    found = (replace(each, tags=tuple(tag for tag in each.tags if tag in wanted)) for each in parsed.inline_tags())
    return tuple(each for each in found if each.tags)


# Formats that give other text than what is stored. All others mean the stored text.
_FORMATS: dict[SchemaType, frozenset[str]] = {
    SchemaType.AVRO: frozenset({"resolved"}),
    SchemaType.JSON: frozenset(),
    SchemaType.PROTOBUF: frozenset({"serialized", "ignore_extensions"}),
}


def needs_parsing(content: Content, format_name: str) -> bool:
    return format_name in _FORMATS[content.schema_type]


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """A version to compare with, which is parsed when the comparison comes to it."""

    version: int
    metadata: Metadata | None
    source: Source
    parse: Callable[[Source], ParsedSchema]

    @property
    def schema(self) -> ParsedSchema:
        try:
            return self.parse(self.source)
        except InvalidSchemaError as error:
            raise InvalidSchemaError(f"Version {self.version}, which is stored, cannot be read: {error}") from None


def source_of(content: Content, resolved: Sequence[ResolvedReference]) -> Source:
    return Source(content.schema_type, content.text, content.references, tuple(resolved))
