"""The Spark session a pipeline runs in, and how any session of ours is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.causes import first_cause
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Pipeline, is_real_time
from penstock.pipelines.runtime.query_plan import sinks_of
from penstock.pipelines.runtime.spark.gateway import start_gateway
from penstock.pipelines.runtime.spark.jvm import JVM
from penstock.pipelines.spark_home import leave_out_archive
from penstock.pipelines.spark_log import SPARK_LOG, take_over_logs
from penstock.pipelines.spark_settings import ADAPTIVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAST_JAVA = 17
_JAVA_HINT = "Install it (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it."
# Java's second compiler takes code up five to eight times as late as by default. On two cores it took half a core from
# a pipeline in its first minutes, for code of Spark's planning that runs a few times in each batch. With this the main
# job's results came a third sooner (p50 1.8 s before, 1.2 s after; 1.7 s where loops counted as by default).
_LATE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=40000 -XX:Tier4MinInvocationThreshold=5000"
    " -XX:Tier4CompileThreshold=100000 -XX:Tier4BackEdgeThreshold=200000"
)
# A task is tried four times, as on a cluster. Spark's plain local[*] tries once: a Python worker that dies, of too
# little memory for one, would end the query.
DEFAULT_MASTER = "local[*,4]"
_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    # A batch comes again with the same rows after a failure: its tasks must not be cut anew by what Spark measures.
    ADAPTIVE: "false",
    "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
    # A batch writes down what it changed, and not the whole state; Spark makes whole copies now and then beside it.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    # A batch is kept in memory until its last sink has it: too short a time for compression to pay.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
}
# Only where Spark runs on this machine alone; elsewhere the cluster's own settings count.
LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
# How long rows on their way to a task with state wait for others to go with them. At 500 rows a second p50 of a
# count per key was 54 ms by default, and 9 ms with this.
REAL_TIME_DEFAULTS = {"spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2"}


def open_session(pipeline: Pipeline, master: str | None = None) -> SparkSession:
    """A new session, or under spark-submit the one with the settings given there; `master` wins over both."""
    return start_session(session_settings(pipeline, master))


def start_session(chosen: Mapping[str, str]) -> SparkSession:
    """A session with these settings. Its JVM starts here unless there is one."""
    find_java()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from penstock.pipelines.data_source import register

    if chosen.get("spark.master", "").startswith("local"):
        for name, value in local_environment().items():
            os.environ.setdefault(name, value)
        leave_out_archive()
    if "spark.pyspark.python" in chosen:
        os.environ["PYSPARK_PYTHON"] = chosen["spark.pyspark.python"]  # all that PySpark itself looks at
    try:
        start_gateway(chosen)
    except PipelineError:
        check_java()  # only now: asking Java for its version takes a tenth of a second of each start
        raise
    take_over_logs()
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise _not_started(chosen.get("spark.master", ""), error) from error
    # Spark looks for data sources with the interpreter of its own environment, under spark-submit perhaps another one.
    register(spark)
    return spark


def _not_started(master: str, error: Exception) -> PipelineError:
    if master.startswith("spark://"):  # Spark's own error has only that its context was stopped, not why
        return PipelineError(f"no Spark master took the application at {master}", SPARK_LOG.place)
    return PipelineError(f"Spark did not start: {first_cause(str(error))}", SPARK_LOG.place)


def stop_session(spark: SparkSession) -> None:
    if not JVM.is_ended:  # else there is nothing left to stop
        spark.stop()


def session_settings(pipeline: Pipeline, master: str | None) -> dict[str, str]:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = pipeline.settings
    asked = master or settings.spark.get("spark.master") or ("" if submitted else DEFAULT_MASTER)
    chosen = {**_DEFAULTS, "spark.app.name": f"penstock-{pipeline.name}"}
    for sink in sinks_of(pipeline):
        chosen |= sink.session_settings
    if asked.startswith("local"):
        chosen |= LOCAL_DEFAULTS
    if is_real_time(settings):
        chosen |= REAL_TIME_DEFAULTS
    if settings.parallelism:
        chosen["spark.sql.shuffle.partitions"] = str(settings.parallelism)
    elif asked.startswith("local"):
        chosen["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    return chosen | dict(settings.spark) | ({"spark.master": asked} if asked else {})


def local_environment() -> dict[str, str]:
    """The environment of Spark's JVM on this machine; existing variables stay."""
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        # Or Spark takes whatever python3 is found first, which need not be the one that has us.
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Of the small JVM that only writes the command line of the large one.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # A deep stack: Java's regular expressions recurse, and a long line was seen to end a query's thread.
        "SPARK_SUBMIT_OPTS": f"-Xss4m {_LATE_SECOND_COMPILER} -Dlog4j2.configurationFile={quiet}",
    }


def default_file_system(spark: SparkSession) -> str:
    """Where a path without a scheme is, whatever said so: settings, HADOOP_CONF_DIR, the cluster."""
    return str(spark._jsc.hadoopConfiguration().get("fs.defaultFS") or "")


@contextmanager
def batches_with_rows(spark: SparkSession) -> Iterator[None]:
    """Queries that start inside have no batches without rows. Otherwise a query whose state goes by the clock has one
    such batch after the other (Spark cannot tell whether a timer is set), and does not end where others do."""
    before = spark.conf.get(_EMPTY_BATCHES)
    spark.conf.set(_EMPTY_BATCHES, "false")
    try:
        yield
    finally:
        spark.conf.set(_EMPTY_BATCHES, before or "true")


def find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        raise PipelineError(f"Spark needs Java {_LEAST_JAVA} or newer, and there is no java", _JAVA_HINT)
    return java


def check_java() -> None:
    java = find_java()
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = answer.partition('"')[2].partition('"')[0]
    major = version.split(".")[0]
    if major.isdecimal() and int(major) < _LEAST_JAVA:
        raise PipelineError(f"Spark needs Java {_LEAST_JAVA} or newer; {java} is {version}", _JAVA_HINT)
