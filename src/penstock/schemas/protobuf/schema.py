"""A Protobuf schema that was parsed, with the files it imports."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property

from google.protobuf.descriptor_pool import DescriptorPool

from penstock.schemas.limits import Limits, bounded
from penstock.schemas.protobuf.comparison import differences
from penstock.schemas.protobuf.elements import ProtoFile
from penstock.schemas.protobuf.extensions import without_extensions
from penstock.schemas.protobuf.files import Linked, read_and_link, serialized
from penstock.schemas.protobuf.normal_form import normalize
from penstock.schemas.protobuf.printer import print_proto
from penstock.schemas.protobuf.tags import entities
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


def parse_protobuf(
    text: str,
    references: tuple[Reference, ...],
    resolved: Sequence[ResolvedReference],
    limits: Limits,
    *,
    is_new: bool,
) -> ProtobufSchema:
    linked = read_and_link(text, {each.name: each for each in resolved}, limits, is_new=is_new)
    return ProtobufSchema(linked.main.file, references, linked, limits)


@dataclass(frozen=True)
class ProtobufSchema:
    file: ProtoFile = field(repr=False)
    references: tuple[Reference, ...]
    _linked: Linked = field(repr=False)
    _limits: Limits = field(repr=False)

    schema_type = SchemaType.PROTOBUF

    @cached_property
    def canonical_text(self) -> str:
        return print_proto(self.file)

    @property
    def name(self) -> str | None:
        """The first message: records have it unless they name another."""
        if not self.file.messages:
            return None
        first = self.file.messages[0].name
        return f"{self.file.package}.{first}" if self.file.package else first

    def described(self) -> tuple[DescriptorPool, str]:
        """The file and its imports as protobuf's runtime built them, and the name of the file there."""
        return self._linked.pool, self._linked.main.descriptor.name

    @bounded
    def normalized(self) -> ProtobufSchema:
        file = normalize(self.file, self._linked.symbols)
        return replace(self, file=file, references=tuple(sorted(set(self.references))))

    @bounded
    def formatted(self, format_name: str) -> str:
        if format_name == "serialized":
            return serialized(self._linked)
        if format_name == "ignore_extensions":
            return print_proto(without_extensions(self.file))
        return self.canonical_text

    def has_top_level_field(self, name: str) -> bool:
        return bool(self.file.messages) and any(each.name == name for each in self.file.messages[0].all_fields())

    def inline_tags(self) -> list[SchemaTags]:
        return tags_of(entities(self.file))

    @bounded
    def retagged_text(self, add: Sequence[SchemaTags], remove: Sequence[SchemaTags]) -> str:
        file = deepcopy(self.file)
        retag(entities(file), add, remove)
        return print_proto(file)

    @bounded
    def differences_from(self, writer: ParsedSchema, policy: Policy) -> list[Difference]:
        assert isinstance(writer, ProtobufSchema)
        return differences(writer._linked, self._linked, self._limits)
