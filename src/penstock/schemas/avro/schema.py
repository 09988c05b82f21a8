"""An Avro schema that was parsed, with the schemas it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.schemas.avro.compatibility import differences
from penstock.schemas.avro.defaults import DefaultCheck
from penstock.schemas.avro.model import AvroType, Record
from penstock.schemas.avro.normal_form import Normalizer
from penstock.schemas.avro.parsing import AvroParser
from penstock.schemas.avro.printer import print_schema
from penstock.schemas.avro.tags import entities
from penstock.schemas.json_text import Json, read_json, write_json
from penstock.schemas.limits import Limits, bounded
from penstock.schemas.schema import (
    Difference,
    ParsedSchema,
    Policy,
    Reference,
    ResolvedReference,
    SchemaTags,
    SchemaType,
)
from penstock.schemas.tags import retag, tags_of


def parse_avro(
    text: str,
    references: tuple[Reference, ...],
    resolved: Sequence[ResolvedReference],
    limits: Limits,
    *,
    is_new: bool,
) -> AvroSchema:
    parser = AvroParser(DefaultCheck(limits), is_new, check_names=False)
    # Not as new ones: they are registered already.
    parser.is_new = False
    for reference in resolved:
        parser.parse_document(read_json(reference.text, limits, keep_numbers=False))
    defined_elsewhere = frozenset(parser.names)
    parser.is_new, parser.check_names = is_new, True
    root = parser.parse_document(read_json(text, limits, keep_numbers=False))
    return AvroSchema(root, references, defined_elsewhere, limits)


@dataclass(frozen=True)
class AvroSchema:
    root: AvroType
    references: tuple[Reference, ...]
    # Names that the referred schemas define. Java's library knows only their outermost names, writes the inner ones out
    # again, and then refuses its own text.
    defined_elsewhere: frozenset[str]
    limits: Limits

    schema_type = SchemaType.AVRO

    @cached_property
    def canonical_text(self) -> str:
        return print_schema(self.root, self.defined_elsewhere)

    @property
    def name(self) -> str | None:
        return self.root.name.full if isinstance(self.root, Record) else None

    @bounded
    def normalized(self) -> AvroSchema:
        root = Normalizer(DefaultCheck(self.limits)).normalized(self.root)
        return AvroSchema(root, tuple(sorted(set(self.references))), self.defined_elsewhere, self.limits)

    @bounded
    def formatted(self, format_name: str) -> str:
        return print_schema(self.root) if format_name == "resolved" else self.canonical_text

    def has_top_level_field(self, name: str) -> bool:
        return isinstance(self.root, Record) and self.root.field(name) is not None

    @bounded
    def inline_tags(self) -> list[SchemaTags]:
        return tags_of(entities(self._document()))

    @bounded
    def retagged_text(self, add: Sequence[SchemaTags], remove: Sequence[SchemaTags]) -> str:
        document = self._document()
        retag(entities(document), add, remove)
        return write_json(document)

    def _document(self) -> Json:
        return read_json(self.canonical_text, self.limits)

    @bounded
    def differences_from(self, writer: ParsedSchema, policy: Policy) -> list[Difference]:
        assert isinstance(writer, AvroSchema)
        return differences(self.root, writer.root, policy, self.limits)
