"""From the text of a schema to its codec. Takes up to seconds for hostile texts: not for an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.registry import NewSchema, ReferencedSchema
from penstock.core.extras import explained
from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Reference, ResolvedReference, SchemaType
from penstock.serdes.codec import Codec
from penstock.serdes.errors import UnusableSchemaError


@dataclass(frozen=True, slots=True)
class CodecOptions:
    # Avro: values of unions may come without the name of their branch.
    is_lenient: bool = False
    # JSON: payloads of other writers are checked too.
    checks_read: bool = False


def compile_codec(schema: NewSchema, others: Sequence[ReferencedSchema], options: CodecOptions) -> Codec:
    """Raises UnusableSchemaError."""
    try:
        return _codec(parse_schema(schema, others), schema, others, options)
    except InvalidSchemaError as error:
        raise UnusableSchemaError(f"the schema cannot be used: {error}") from None


def parse_schema(schema: NewSchema, others: Sequence[ReferencedSchema]) -> ParsedSchema:
    """Raises UnusableSchemaError, InvalidSchemaError."""
    try:
        schema_type = SchemaType(schema.schema_type)
    except ValueError:
        known = ", ".join(SchemaType)
        raise UnusableSchemaError(
            f"schemas of the type {schema.schema_type[:40]!r} are unknown; there are {known}"
        ) from None
    references = [Reference(each.name, each.subject, each.version) for each in schema.references]
    resolved = [ResolvedReference(each.name, each.text, each.subject, each.version) for each in others]
    try:
        # Not as a new one: the registry decides whether it may be registered.
        return parse(schema_type, schema.text, references, resolved, is_new=False)
    except ModuleNotFoundError as error:
        raise UnusableSchemaError(str(explained(error, f"a schema of {schema_type}"))) from None


def _codec(parsed: ParsedSchema, schema: NewSchema, others: Sequence[ReferencedSchema], options: CodecOptions) -> Codec:
    # Imported here: each format needs its own library, and two of them are extras.
    if parsed.schema_type is SchemaType.AVRO:
        from penstock.schemas.avro.schema import AvroSchema
        from penstock.serdes.avro.codec import AvroCodec

        assert isinstance(parsed, AvroSchema)
        return AvroCodec(parsed, is_lenient=options.is_lenient)
    if parsed.schema_type is SchemaType.JSON:
        from penstock.schemas.json_schema.schema import JsonSchema
        from penstock.serdes.json_schema import JsonSchemaCodec

        assert isinstance(parsed, JsonSchema)
        texts = {each.name: each.text for each in others}
        return JsonSchemaCodec(parsed, schema.text, texts, checks_read=options.checks_read)
    from penstock.schemas.protobuf.schema import ProtobufSchema
    from penstock.serdes.protobuf import ProtobufCodec

    assert isinstance(parsed, ProtobufSchema)
    return ProtobufCodec(parsed)
