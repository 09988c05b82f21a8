"""A schema for the columns of a query, and whether columns fit a schema that is there. No registry is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.schemas.schema import ParsedSchema, SchemaType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def derive_schema(
    columns: StructType, schema_type: SchemaType, name: str, namespace: str = "", *, earlier: str | None = None
) -> str:
    """The text of a schema. `earlier`: a Protobuf text whose field numbers are kept. Raises PipelineError."""
    raise NotImplementedError


def check_fits(columns: StructType, schema: ParsedSchema, message: str | None = None) -> list[str]:
    """What is missing or wrong, a sentence each; empty if rows of the columns can be written with the schema."""
    raise NotImplementedError
