"""A question's own session: a copy of the user's, whose temporary views nobody else sees.

The copy has the user's settings, functions and temporary views, and shares the catalog, the cache and the executors;
making one takes 2 ms. Views for topics are put into the copy alone, so that questions of several threads do not meet
and the user's views stay as they are. Rows come back as a DataFrame of the user's session.

The copy has no SparkSession of Python's: making one would change what `RDD.toDF` does everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As a plan prints a name: `a, b` is a.b. Names of topics have no brackets, commas or spaces.
_RELATION = re.compile(r"'UnresolvedRelation \[([^\[\]]+)\]")
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


class OwnSession:
    """Every method raises what PySpark raises."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._session: Any = spark._jsparkSession.cloneSession()
        # Longer lists of values become sets, which a plan's JSON leaves out.
        self._session.conf().set("spark.sql.optimizer.inSetConversionThreshold", "10000")

    def parse(self, text: str) -> Parsed:
        plan = self._session.sessionState().sqlParser().parsePlan(text)
        names = [found for found in _RELATION.findall(plan.toString()) if ", " not in found]
        return Parsed(tuple(dict.fromkeys(names)), any(self._is_a(plan, kind) for kind in _COMMANDS))

    def is_known(self, name: str) -> bool:
        """Whether the session has a table or a view of this name."""
        return bool(self._session.catalog().tableExists(quote(name)))

    def put_view(self, name: str, frame: DataFrame) -> None:
        """In place of any other view of this name, in this session."""
        self._of_rows(self._session, frame._jdf.queryExecution().analyzed()).createOrReplaceTempView(quote(name))

    def analyze(self, text: str) -> Any:
        return self._session.sql(text).queryExecution()

    def optimized_json(self, execution: Any) -> tuple[str, str]:
        """The optimized plan, and the time zone that its literals are in."""
        plan = execution.optimizedPlan()
        zone = self._jvm.org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone()
        return str(plan.toJSON()), str(zone)

    def frame(self, execution: Any) -> DataFrame:
        """The rows of the question, in the user's session."""
        return DataFrame(self._of_rows(self._spark._jsparkSession, execution.analyzed()), self._spark)

    def _of_rows(self, session: Any, plan: Any) -> Any:
        return self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan)

    def _is_a(self, value: Any, name: str) -> bool:
        from py4j.java_gateway import is_instance_of

        return bool(is_instance_of(self._spark._sc._gateway, value, name))


def plan_text(frame: DataFrame) -> str:
    """Spark's plan of the rows."""
    if not hasattr(frame, "_jdf"):
        return ""  # of Spark Connect: the server has it
    jvm: Any = frame.sparkSession._jvm
    return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))


def quote(name: str) -> str:
    """One identifier, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"
