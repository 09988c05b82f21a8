"""Derives a schema from the columns of a query, and checks columns against an existing schema. Calls no registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.derived_schemas.avro import derive_avro
from penstock.pipelines.payloads.derived_schemas.json_schema import derive_json
from penstock.pipelines.payloads.derived_schemas.protobuf import derive_protobuf
from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, SchemaType
from penstock.serdes.columns.encoding.open_encoding import open_encoding

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor
    from pyspark.sql.types import StructType


def derive_schema(
    columns: StructType, schema_type: SchemaType, name: str, namespace: str = "", *, earlier: str | None = None
) -> str:
    """The text of a schema. `earlier`: a version of a Protobuf file whose field numbers are kept. Raises PipelineError,
    which names the column that has no type or no name in the format.
    """
    if not columns.fields:
        raise PipelineError("there are no columns, so no schema can be made of them")
    if schema_type is SchemaType.AVRO:
        return derive_avro(columns, name, namespace)
    if schema_type is SchemaType.JSON:
        return derive_json(columns, name)
    return derive_protobuf(columns, name, namespace, _message(earlier, name) if earlier is not None else None)


def _message(text: str, name: str) -> Descriptor | None:
    """The message of that name in a file; the first one if there is none."""
    from penstock.schemas.protobuf.schema import ProtobufSchema

    try:
        schema = parse(SchemaType.PROTOBUF, text, is_new=False)
    except InvalidSchemaError as error:
        raise PipelineError(f"the earlier version of the schema cannot be read: {error}") from None
    assert isinstance(schema, ProtobufSchema)
    pool, file_name = schema.described()
    messages: dict[str, Descriptor] = dict(pool.FindFileByName(file_name).message_types_by_name)
    return messages.get(name) or next(iter(messages.values()), None)


def check_fits(columns: StructType, schema: ParsedSchema, message: str | None = None) -> list[str]:
    """The faults, a sentence each; empty if rows of the columns can be written with the schema."""
    return open_encoding(schema, message).problems(arrow_type(columns))


def arrow_type(columns: StructType) -> pa.DataType:
    """The type in which Spark hands over rows of the columns."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(columns, timezone="UTC")
