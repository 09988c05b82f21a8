"""SQL over topics: questions, statements, and what they need of the tables.

tables = penstock.pipelines.sql.register(spark, "localhost:9092", registry="http://localhost:8081")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.pipelines.sql.tables import Tables, register

__all__ = ["Tables", "register"]


def __getattr__(name: str) -> Any:
    """Statements are read without Spark, so that it is imported for those who ask for tables alone."""
    if name in __all__:
        from penstock.pipelines.sql import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
