"""A question's own session: a copy of the user's, with temporary views that no other session sees.

The copy has the user's settings, functions and temporary views, and shares the catalog, the cache and the executors;
making one takes 2 ms. Views for topics are put into the copy alone, so that questions of several threads do not meet
and the user's views stay as they are. Rows come back as a DataFrame of the user's session.

The copy has no SparkSession of Python's: making one would change what `RDD.toDF` does everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from penstock.core.bounded_cache import BoundedCache
from penstock.pipelines.sql.pushdown import MARKER
from penstock.pipelines.sql_identifiers import quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# As a plan prints a name: `a, b` is a.b. Names of topics have no brackets, commas or spaces.
_RELATION = re.compile(r"'UnresolvedRelation \[([^\[\]]+)\]")
# Making a marker takes 30 ms, and one is a small plan in the JVM.
_MOST_MARKERS = 500
_COMMANDS = (
    "org.apache.spark.sql.catalyst.plans.logical.Command",
    "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement",
)


def is_classic(spark: SparkSession) -> bool:
    """Whether the session is in a JVM of this process's; one of Spark Connect shows no plans."""
    return hasattr(spark, "_jsparkSession")


@dataclass(frozen=True)
class Parsed:
    """A statement before Spark has looked up anything."""

    names: tuple[str, ...]  # of tables and views that have one part, in the order of the text
    is_command: bool  # it does something, so it must not be analyzed twice


class Sessions:
    """Makes sessions of questions. Each look for a class of Java's is a round trip or several, so they are kept."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self.spark = spark
        self.dataset: Any = getattr(jvm, "org.apache.spark.sql.classic.Dataset")
        self.settings: Any = getattr(jvm, "org.apache.spark.sql.internal.SQLConf")
        class_for_name = getattr(jvm, "org.apache.spark.util.Utils").classForName
        self.commands = [class_for_name(name, True, False) for name in _COMMANDS]
        self._markers: BoundedCache[tuple[str, str], DataFrame] = BoundedCache(_MOST_MARKERS)

    def open(self) -> OwnSession:
        return OwnSession(self.spark, self)

    def marker(self, name: str, schema: StructType) -> DataFrame:
        """Stands for the table in the first pass; `wanted` finds it by the function's name. It is never run."""
        key = name, schema.json()
        known = self._markers.get(key)
        if known is None:

            def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                yield from batches

            read.__name__ = MARKER + name
            known = self.spark.range(1).mapInArrow(read, schema)
            self._markers.put(key, known)
        return known


class OwnSession:
    """Every method raises what PySpark raises."""

    def __init__(self, spark: SparkSession, sessions: Sessions | None = None) -> None:
        self._sessions = sessions = sessions or Sessions(spark)
        self._user_session: Any = sessions.spark._jsparkSession
        self._session: Any = self._user_session.cloneSession()
        # Longer lists of values become sets, which a plan's JSON leaves out.
        self._session.conf().set("spark.sql.optimizer.inSetConversionThreshold", "10000")

    def parse(self, text: str) -> Parsed:
        plan = self._session.sessionState().sqlParser().parsePlan(text)
        names = [found for found in _RELATION.findall(plan.toString()) if ", " not in found]
        return Parsed(tuple(dict.fromkeys(names)), any(kind.isInstance(plan) for kind in self._sessions.commands))

    def is_known(self, name: str) -> bool:
        """Whether the session has a table or a view of this name."""
        return bool(self._session.catalog().tableExists(quote(name)))

    def is_case_sensitive(self) -> bool:
        return bool(self._session.conf().get("spark.sql.caseSensitive") == "true")

    def put_view(self, name: str, frame: DataFrame) -> None:
        """In place of any other view of this name, in this session."""
        self._of_rows(self._session, frame._jdf.queryExecution().analyzed()).createOrReplaceTempView(quote(name))

    def analyze(self, text: str) -> Any:
        return self._session.sql(text).queryExecution()

    def optimized_json(self, execution: Any) -> tuple[str, str]:
        """The optimized plan, and the time zone that its literals are in."""
        plan = execution.optimizedPlan()
        zone = self._sessions.settings.get().sessionLocalTimeZone()
        return str(plan.toJSON()), str(zone)

    def analyzed_json(self, execution: Any) -> str:
        """The plan before clocks have become literals."""
        return str(execution.analyzed().toJSON())

    def frame(self, execution: Any) -> DataFrame:
        """The rows of the question, in the user's session."""
        return DataFrame(self._of_rows(self._user_session, execution.analyzed()), self._sessions.spark)

    def _of_rows(self, session: Any, plan: Any) -> Any:
        return self._sessions.dataset.ofRows(session, plan)


def plan_text(frame: DataFrame) -> str:
    """Spark's plan of the rows."""
    if not hasattr(frame, "_jdf"):
        return ""  # of Spark Connect: the server has it
    jvm: Any = frame.sparkSession._jvm
    return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))
