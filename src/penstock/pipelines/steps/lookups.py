"""Enriches rows from elsewhere: a file in memory, Redis, an SQL database, or ranges of addresses.

A step looks up many keys at once, in the task, and a lookup lives once per worker process: connections and tables do
not travel to the tasks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.client.resource_cache import ResourceCache
from penstock.pipelines.pipeline import Step
from penstock.pipelines.steps.kinds import arrow_kind
from penstock.pipelines.steps.named_steps import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@runtime_checkable
class LookupTable(Protocol):
    """An opened lookup. One that also has `close()` is closed when the worker has no more use for it."""

    def find(self, keys: pa.Array) -> pa.Array:
        """One answer per key, in their order, of the lookup's kind; null where nothing is known."""


@runtime_checkable
class Lookup(Hashable, Protocol):
    """Describes where to look: small, hashable, picklable. `kind` is the answer's type as Spark writes it."""

    @property
    def kind(self) -> str: ...

    def open(self, kind: pa.DataType) -> LookupTable:
        """`kind` again, as Arrow writes it."""


@runtime_checkable
class Closeable(Protocol):
    def close(self) -> None: ...


def _close(table: LookupTable) -> None:
    if isinstance(table, Closeable):
        table.close()


# A pipeline has a handful of lookups. Tables of files are held in memory, so those of former pipelines must go.
_MOST_TABLES = 16
_tables: ResourceCache[Lookup, LookupTable] = ResourceCache(_MOST_TABLES, _close)


def enrich(lookup: Lookup, key: str, into: str) -> Step:
    """A column `into` with what the lookup knows about the column `key`."""

    def add(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        kind = arrow_kind(lookup.kind)

        def ask(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
            table = open_table(lookup, kind)
            for keys in batches:
                yield table.find(keys)

        return rows.withColumn(into, F.arrow_udf(ask, lookup.kind)(F.col(key)))  # type: ignore[call-overload]

    return named(f"enrich({key} -> {into})", add)


def open_table(lookup: Lookup, kind: pa.DataType) -> LookupTable:
    """The worker's own, opened when it is first needed."""
    return _tables.get(lookup, lambda: lookup.open(kind))
