"""SQL over topics: queries and statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.lazy.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.pipelines.sql.tables import Tables, register

__all__ = ["Tables", "register"]

_MODULES = {"Tables": "penstock.pipelines.sql.tables", "register": "penstock.pipelines.sql.tables"}

if not TYPE_CHECKING:  # the shell reads statements before there is a Spark
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, "penstock.pipelines.sql")
