"""Types written as Spark writes them, such as "id bigint, name string". Spark reads them, so on the driver alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def columns_of(schema: str | StructType) -> StructType:
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    columns = StructType.fromDDL(schema)
    if not isinstance(columns, StructType):
        raise ValueError(f"{schema!r} does not say columns and their types, such as 'id bigint, name string'")
    return columns


def arrow_kind(kind: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(columns_of(f"answer {kind}").fields[0].dataType, timezone="UTC")
