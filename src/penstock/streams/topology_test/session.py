"""The Spark session of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.pipeline import Pipeline, Settings
from penstock.pipelines.runtime.spark.session import session_settings, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A test has a few rows: one task is enough, and compiling code for a plan takes longer than running it as it is.
_SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_MASTER = "local[2,1]"  # a failure in a test is no passing one: tasks are tried once


def session_for_tests(given: SparkSession | None, settings: Settings) -> SparkSession:
    """A session of its own over the context that is there, or over a new one: the settings of others stay.

    A context that starts here goes on until the process ends: a start takes seconds, and the next test needs it."""
    from pyspark.sql import SparkSession

    chosen = session_settings(Pipeline("topology-test", (), (), settings=settings), _MASTER)
    found = given or SparkSession.getActiveSession()
    if found is None:
        found = start_session(chosen)
        found.sparkContext.setLogLevel("ERROR")
    session = found.newSession()
    for name, value in (chosen | _SMALL).items():
        if name.startswith("spark.sql.") and session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session
