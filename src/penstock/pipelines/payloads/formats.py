"""How the bytes of a key or a value become a column. Formats are made on the driver and travel to tasks: plain data.

settings = RegistryAddress.of({"schema.registry.url": "http://localhost:8081"})
orders = resolve_format(settings, "orders-value")              # the latest version, as of now
lines = json_format(StructType.fromDDL("id bigint, name string"))
TEXT, BYTES
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from penstock.client.registry import (
    ReferencedSchema,
    RegisteredSchema,
    RegistryAnswerError,
    RegistryClient,
    RegistrySettings,
)
from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.spark_types import arrow_of_spark, spark_arrow_type, spark_type
from penstock.schemas.schema import ParsedSchema
from penstock.serdes.columns.decoding import ColumnDecoder
from penstock.serdes.columns.open_columns import open_columns, read_schema
from penstock.serdes.errors import SerdesError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


class PayloadKind(StrEnum):
    REGISTRY = "registry"
    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Where the registry is and how to log in, by the names of `client.registry.settings`.

    The properties, not `RegistrySettings`, travel to tasks: a TLS context does not.
    """

    properties: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Raises ConfigError."""
        RegistrySettings.of_properties(properties)
        return cls(tuple(sorted(properties.items())))

    def settings(self) -> RegistrySettings:
        return RegistrySettings.of_properties(dict(self.properties))


@dataclass(frozen=True, slots=True)
class ReaderSchema:
    """The schema whose columns a table has, with all that it refers to."""

    schema: RegisteredSchema
    others: tuple[ReferencedSchema, ...] = ()

    def parsed(self) -> ParsedSchema:
        """Raises UnusableSchemaError."""
        return read_schema(self.schema.schema, self.others)

    def columns(self, fields: frozenset[str] | None = None, message: str | None = None) -> ColumnDecoder:
        """The decoder of payloads that were written with this very schema. Raises UnusableSchemaError, ChoiceError."""
        return open_columns(self.parsed(), None, fields, message)


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    kind: PayloadKind
    registry: RegistryAddress | None = None
    # Ids count in the context of this subject.
    subject: str | None = None
    # Without it a value is the JSON text that its writer's schema gives.
    reader: ReaderSchema | None = None
    # Of Protobuf: the message of the file that payloads have. None: the first.
    message: str | None = None
    # Of kind json: Spark's type as Spark writes it in JSON, which tasks read without a JVM.
    columns: str = ""

    @property
    def type(self) -> pa.DataType:
        """Spark's Arrow type of the values. A struct where they are records. Raises SerdesError."""
        match self.kind:
            case PayloadKind.BYTES:
                return pa.binary()
            case PayloadKind.JSON:
                return _declared(self.columns)
            case PayloadKind.REGISTRY if self.reader is not None:
                return spark_arrow_type(self.reader.columns(message=self.message).type)
        return pa.string()

    @property
    def spark_type(self) -> DataType:
        return spark_type(self.type)


TEXT = PayloadFormat(PayloadKind.TEXT)
BYTES = PayloadFormat(PayloadKind.BYTES)


def json_format(columns: StructType) -> PayloadFormat:
    return PayloadFormat(PayloadKind.JSON, columns=columns.json())


def resolve_format(
    registry: RegistryAddress, subject: str, version: int | Literal["latest"] = "latest", *, message: str | None = None
) -> PayloadFormat:
    """The version of the subject as the registry has it now. Blocks.

    Raises TableError where there is no such subject or version or its schema has no columns, and RegistryClientError
    where the registry does not answer or refuses the login.
    """
    with RegistryClient(registry.settings()) as client:
        try:
            schema = client.latest(subject) if version == "latest" else client.version(subject, version)
            others = client.referenced(schema.schema, subject)
        except RegistryAnswerError as error:
            if not error.is_not_found:
                raise
            hint = f"`penstock schemas list` shows the subjects; a version of {subject} must be registered first."
            raise TableError(f"the registry has no version {version} of the subject {subject}", hint) from None
    found = PayloadFormat(PayloadKind.REGISTRY, registry, subject, ReaderSchema(schema, others), message)
    try:
        _ = found.type
    except SerdesError as error:
        raise TableError(f"version {schema.version} of the subject {subject} has no columns: {error}") from None
    return found


def _declared(columns: str) -> pa.DataType:
    from pyspark.sql.types import StructType

    return arrow_of_spark(StructType.fromJson(json.loads(columns)))
