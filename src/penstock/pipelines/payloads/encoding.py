"""Rows to payloads of a registry's schema: the driver chooses the schema, tasks write with it and ask nobody.

schema = register_schema(settings, SchemaRequest("orders-value"), frame.schema)    # driver
encoder = open_encoder(schema)                                                      # task
payloads = encoder.encode(rows)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.client.registry import ReferencedSchema, RegistryClient, RegistrySettings, SchemaReference
from penstock.schemas.schema import SchemaType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Framing(StrEnum):
    """Where a record says its schema: in front of the payload, or in a header."""

    PREFIX = "prefix"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """Which schema a sink writes with. Without a text, an id and `is_latest` it is derived from the columns."""

    subject: str
    schema_type: SchemaType = SchemaType.AVRO
    # Registered after its compatibility was checked; only looked up without `auto_register`.
    text: str | None = None
    references: tuple[SchemaReference, ...] = ()
    schema_id: int | None = None
    is_latest: bool = False
    auto_register: bool = True
    # Of a Protobuf file: which of its messages.
    message: str | None = None
    # Of a derived schema.
    name: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class SinkSchema:
    """All that a task needs to write with the schema; picklable."""

    schema_type: SchemaType
    text: str
    schema_id: int
    guid: str | None = None
    subject: str | None = None
    version: int | None = None
    references: tuple[SchemaReference, ...] = ()
    referenced: tuple[ReferencedSchema, ...] = ()
    message: str | None = None


def register_schema(
    registry: RegistrySettings | RegistryClient, request: SchemaRequest, columns: StructType
) -> SinkSchema:
    """Registers nothing before the columns fit and the registry finds the schema compatible. Raises PipelineError."""
    raise NotImplementedError


class PayloadEncoder:
    """Writes rows with one schema."""

    # Name and value, the same for all rows; None where payloads are framed by a prefix.
    header: tuple[str, bytes] | None

    def encode(self, rows: pa.Array) -> pa.Array:
        """A binary array. A row that is null has a null payload. Raises PayloadError that names the row and the field."""
        raise NotImplementedError


def open_encoder(schema: SinkSchema, framing: Framing = Framing.PREFIX, *, is_key: bool = False) -> PayloadEncoder:
    """Raises SerdesError."""
    raise NotImplementedError
