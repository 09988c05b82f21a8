"""How the bytes of a key or a value become a column. Formats are made on the driver and travel to tasks: plain data.

settings = RegistryAddress.of({"schema.registry.url": "http://localhost:8081"})
orders = resolve_format(settings, "orders-value")              # the latest version, as of now
lines = json_format(StructType.fromDDL("id bigint, name string"))
TEXT, BYTES
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from penstock.client.registry import ReferencedSchema, RegisteredSchema, RegistrySettings

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
        """Spark's Arrow type of the values. A struct where they are records."""
        raise NotImplementedError

    @property
    def spark_type(self) -> DataType:
        raise NotImplementedError


TEXT = PayloadFormat(PayloadKind.TEXT)
BYTES = PayloadFormat(PayloadKind.BYTES)


def json_format(columns: StructType) -> PayloadFormat:
    return PayloadFormat(PayloadKind.JSON, columns=columns.json())


def resolve_format(
    registry: RegistryAddress, subject: str, version: int | Literal["latest"] = "latest", *, message: str | None = None
) -> PayloadFormat:
    """The version of the subject as the registry has it now. Blocks.

    Raises TableError where there is no such subject or version or its schema has no columns, and
    RegistryUnreachableError.
    """
    raise NotImplementedError
