"""Names and types in Spark's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def quote(name: str) -> str:
    """One identifier, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def type_ddl(kind: DataType) -> str:
    """The type in Spark's SQL, with all names quoted."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case ArrayType():
            return f"ARRAY<{type_ddl(kind.elementType)}>"
        case MapType():
            return f"MAP<{type_ddl(kind.keyType)}, {type_ddl(kind.valueType)}>"
        case StructType():
            return "STRUCT<" + ", ".join(f"{quote(each.name)}: {type_ddl(each.dataType)}" for each in kind.fields) + ">"
    return str(kind.simpleString())
