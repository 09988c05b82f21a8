"""SQL over topics: queries and statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.pipelines.sql.tables import Tables, register

__all__ = ["Tables", "register"]


def __getattr__(name: str) -> Any:
    """Spark is imported when it is first used: the shell reads statements before there is one."""
    if name in __all__:
        from penstock.pipelines.sql import tables

        return getattr(tables, name)
    raise AttributeError(f"module 'penstock.pipelines.sql' has no attribute {name!r}")
