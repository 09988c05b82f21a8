"""Finds the encoder of columns for a parsed schema."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.schemas.schema import ParsedSchema, SchemaType
from penstock.serdes.columns.encoding.rows import ColumnEncoder


def open_encoding(
    schema: ParsedSchema, message: str | None = None, others: Mapping[str, str] | None = None
) -> ColumnEncoder:
    """`others`: the texts that a JSON schema refers to, by their names. Raises UnusableSchemaError, ChoiceError."""
    # Imported here: each format needs its own library, and two of them are extras.
    if schema.schema_type is SchemaType.AVRO:
        from penstock.schemas.avro.schema import AvroSchema
        from penstock.serdes.columns.encoding.avro.encoder import AvroEncoding

        assert isinstance(schema, AvroSchema)
        return AvroEncoding(schema)
    if schema.schema_type is SchemaType.JSON:
        from penstock.schemas.json_schema.schema import JsonSchema
        from penstock.serdes.columns.encoding.json_schema.encoder import JsonEncoding

        assert isinstance(schema, JsonSchema)
        return JsonEncoding(schema, others)
    from penstock.schemas.protobuf.schema import ProtobufSchema
    from penstock.serdes.columns.encoding.protobuf.encoder import ProtobufEncoding

    assert isinstance(schema, ProtobufSchema)
    return ProtobufEncoding(schema, message)
