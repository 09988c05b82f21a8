"""Parses the text of a schema in any format, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.schemas.avro.schema import parse_avro
from penstock.schemas.limits import DEFAULT_LIMITS, Limits, bounded
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Reference, ResolvedReference, SchemaType


class _Parse(Protocol):
    def __call__(
        self,
        text: str,
        references: tuple[Reference, ...],
        resolved: Sequence[ResolvedReference],
        limits: Limits,
        *,
        is_new: bool,
    ) -> ParsedSchema: ...


def _parse_json_schema(
    text: str,
    references: tuple[Reference, ...],
    resolved: Sequence[ResolvedReference],
    limits: Limits,
    *,
    is_new: bool,
) -> ParsedSchema:
    # Here, because its library is an extra that Avro does not need. The same holds for Protobuf.
    from penstock.schemas.json_schema.schema import parse_json_schema

    return parse_json_schema(text, references, resolved, limits, is_new=is_new)


def _parse_protobuf(
    text: str,
    references: tuple[Reference, ...],
    resolved: Sequence[ResolvedReference],
    limits: Limits,
    *,
    is_new: bool,
) -> ParsedSchema:
    from penstock.schemas.protobuf.schema import parse_protobuf

    return parse_protobuf(text, references, resolved, limits, is_new=is_new)


FORMATS: dict[SchemaType, _Parse] = {
    SchemaType.AVRO: parse_avro,
    SchemaType.JSON: _parse_json_schema,
    SchemaType.PROTOBUF: _parse_protobuf,
}


@bounded
def parse(
    schema_type: SchemaType,
    text: str,
    references: Sequence[Reference] = (),
    resolved: Sequence[ResolvedReference] = (),
    limits: Limits = DEFAULT_LIMITS,
    *,
    is_new: bool = True,
) -> ParsedSchema:
    """The schema, or an `InvalidSchemaError` that names the fault in the text.

    `resolved` has the schemas that the references name, and those that they name in turn, each after all that it needs.
    A stored schema is not new: it is read even if a new one like it would be refused.
    """
    _check_sizes(text, resolved, limits, is_new=is_new)
    try:
        parsed = FORMATS[schema_type](text, tuple(references), resolved, limits, is_new=is_new)
        # Printed here, so that a text that cannot be printed or stored (a lone surrogate, say) is an error here and
        # now.
        if len(parsed.canonical_text.encode()) > limits.text_bytes and is_new:
            raise InvalidSchemaError(f"The schema has more than {limits.text_bytes} bytes when it is printed")
    except UnicodeEncodeError:
        raise InvalidSchemaError("The schema has half of a surrogate pair, which no UTF-8 text can have") from None
    return parsed


def _check_sizes(text: str, resolved: Sequence[ResolvedReference], limits: Limits, *, is_new: bool) -> None:
    # A stored schema may have grown when it was normalised.
    if len(text) > limits.text_bytes and is_new:
        raise InvalidSchemaError(f"The schema has more than {limits.text_bytes} characters")
    if len(resolved) > limits.references:
        raise InvalidSchemaError(f"The schema has more than {limits.references} references")
    if len(text) + sum(len(each.text) for each in resolved) > limits.resolved_bytes:
        raise InvalidSchemaError(f"The schema and its references have more than {limits.resolved_bytes} characters")
