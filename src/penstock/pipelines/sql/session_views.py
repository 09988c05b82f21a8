"""Topics as temporary views of the user's session, for plain `spark.sql` and for sessions of Spark Connect.

A view that the user has made is never replaced, and one of ours that the user has replaced is the user's.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import TableError
from penstock.pipelines.sql.sessions import is_classic
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Lookups of one topic wait for the registry and for a sample; so many at a time are no burden to either.
_LOOKUPS = 8
# A view takes some 0.15 s, since Spark gets its columns from a Python worker, and one is made after the other: this
# many take 8 s, the longest wait that a prompt should cost.
_MOST_VIEWS = 50


class SessionViews:
    """The views that we made in one session. For several threads once `make` is done."""

    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self._spark = spark
        self._catalog = catalog
        self.notices: tuple[str, ...] = ()
        self._made: dict[str, Any] = {}  # by name in small letters; the view as Spark keeps it

    def make(self, topics: Collection[str] | None) -> None:
        """Views of these topics, or of all. `notices` name those without one; a topic in `topics` that cannot be read
        raises TableError."""
        from penstock.pipelines.data_source import register as register_source

        register_source(self._spark)
        said = []
        taken: dict[str, str] = {}
        names = self._catalog.topics() if topics is None else topics
        if topics is None and len(names) > _MOST_VIEWS:
            self.notices = (f"{len(names)} topics are too many to be views; name those that spark.sql shall know",)
            return
        for name, table in self._look_up(names, topics is not None):
            twin = taken.setdefault(name.lower(), name)
            if isinstance(table, TableError):
                said.append(f"{name} is no view: {table.message}")
            elif twin != name:
                said.append(f"{name} is no view, because Spark takes it for {twin}; Tables.sql knows both")
            elif name.lower() not in self._made and self._spark.catalog.tableExists(quote(name)):
                said.append(f"{name} is a table or view of the session, so the topic is not")
            else:
                self._make_one(name, table)
        self.notices = tuple(said)

    def ours(self) -> frozenset[str]:
        """The names whose view in the session is still the one that we made."""
        if not self._made:
            return frozenset()
        catalog = _temporary_views(self._spark)
        return frozenset(name for name, made in self._made.items() if made.equals(catalog.getRawTempView(name)))

    def _look_up(self, topics: Collection[str], is_asked_for: bool) -> list[tuple[str, Table | TableError]]:
        def look_up(name: str) -> Table | TableError:
            try:
                return self._catalog.table(name)
            except TableError as error:
                if is_asked_for:
                    raise
                return error

        with ThreadPoolExecutor(_LOOKUPS) as pool:
            return list(zip(topics, pool.map(look_up, topics), strict=True))

    def _make_one(self, name: str, table: Table) -> None:
        from penstock.pipelines.tables.source import table_options

        reader = self._spark.read.format("penstock").options(**table_options(self._catalog.connection, table))
        reader.load().createOrReplaceTempView(quote(name))
        if is_classic(self._spark):
            self._made[name.lower()] = _temporary_views(self._spark).getRawTempView(name.lower())


def _temporary_views(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().catalog()
