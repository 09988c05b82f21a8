"""Finds the decoder of a schema's payloads, whichever format the schema has."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.registry import NewSchema, ReferencedSchema
from penstock.schemas.avro.schema import AvroSchema
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, SchemaType
from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.decoding import ColumnDecoder
from penstock.serdes.compilation import parse_schema
from penstock.serdes.errors import UnusableSchemaError


def read_schema(schema: NewSchema, others: Sequence[ReferencedSchema] = ()) -> ParsedSchema:
    """Raises UnusableSchemaError."""
    try:
        return parse_schema(schema, others)
    except InvalidSchemaError as error:
        raise UnusableSchemaError(f"the schema cannot be used: {error}") from None


def open_columns(
    writer: ParsedSchema,
    reader: ParsedSchema | None = None,
    fields: frozenset[str] | None = None,
    message: str | None = None,
) -> ColumnDecoder:
    """The decoder to the reader's columns; `message` is one of a Protobuf file. Raises UnusableSchemaError,
    ChoiceError.
    """
    if reader is not None and reader.schema_type is not writer.schema_type:
        raise UnusableSchemaError(f"the schema is of {writer.schema_type}, and the reader's is of {reader.schema_type}")
    if isinstance(writer, AvroSchema):
        assert reader is None or isinstance(reader, AvroSchema)
        return AvroColumns(writer, reader, fields)
    # Imported here: each format needs its own library, and two of them are extras.
    if writer.schema_type is SchemaType.JSON:
        from penstock.schemas.json_schema.schema import JsonSchema
        from penstock.serdes.columns.json_schema import JsonColumns

        assert isinstance(writer, JsonSchema)
        assert reader is None or isinstance(reader, JsonSchema)
        return JsonColumns(writer, reader, fields)
    from penstock.schemas.protobuf.schema import ProtobufSchema
    from penstock.serdes.columns.protobuf import ProtobufColumns

    assert isinstance(writer, ProtobufSchema)
    assert reader is None or isinstance(reader, ProtobufSchema)
    return ProtobufColumns(writer, message, reader, fields)
