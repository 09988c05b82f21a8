"""Starts Spark's JVM, and writes its output to `spark_log`, except lines that are no news.

Spark's launcher always asks for a module that is still in incubation, and Java warns of it before any logging is set
up. The JVM keeps its outputs for good, so they are a pipe for good, which a thread reads: the log has a limit.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from penstock.core.properties import format_properties
from penstock.core.words.secrets_seen import is_secret_name
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.spark.jvm import JVM
from penstock.pipelines.spark_log import SPARK_LOG

# Lines of a start without any fault. Whole lines: a line with more text is kept.
_NO_NEWS = frozenset({"WARNING: Using incubator modules: jdk.incubator.vector"})
_LAST_WORDS_S = 5.0


def start_gateway(settings: Mapping[str, str]) -> None:
    """Starts the JVM that the next session will use. Does nothing where there is one: spark-submit's, or an earlier
    session's."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        return
    conf = SparkConf().setAll(list(visible_settings(settings).items()))
    SPARK_LOG.open()
    reading, writing = os.pipe()
    told = Telling(reading)
    told.start()
    try:
        try:
            with options_for_hidden(settings) as options, JVM.starting(options):
                outputs = {"stdout": writing, "stderr": writing}  # standard output is for answers, which are ours
                gateway = launch_gateway(conf, outputs)  # type: ignore[no-untyped-call]  # PySpark's own
        finally:
            os.close(writing)  # Java has its own, and the pipe ends when Java does
    except PySparkRuntimeError as error:
        told.join(_LAST_WORDS_S)
        raise PipelineError("Spark's Java process did not start", SPARK_LOG.place) from error
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def visible_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for Java's command line, which every user of the machine sees."""
    return {key: value for key, value in settings.items() if not is_secret_name(key)}


@contextmanager
def options_for_hidden(settings: Mapping[str, str]) -> Iterator[list[str]]:
    """Options of spark-submit that bring it the other settings in a file that its owner alone can read, as long as the
    JVM starts: it fetches `spark.jars` before there is a session. A file of properties that PYSPARK_SUBMIT_ARGS names
    wins, and these settings come with the session then. Spark takes no others than its own from a file."""
    visible = visible_settings(settings)
    hidden = {key: value for key, value in settings.items() if key not in visible and key.startswith("spark.")}
    if not hidden:
        yield []
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="penstock-spark-", suffix=".properties") as file:
        file.write(format_properties(hidden))
        file.flush()
        # spark-defaults.conf goes on to count: without the second option a file is read in its place.
        yield ["--properties-file", file.name, "--load-spark-defaults"]


class Telling(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe: int, tell: Callable[[bytes], None] = SPARK_LOG.write) -> None:
        super().__init__(name="spark-stderr", daemon=True)
        self._pipe = pipe
        self._tell = tell

    def run(self) -> None:
        with os.fdopen(self._pipe, "rb") as lines:
            for line in news(lines):
                self._tell(line)


def news(lines: Iterable[bytes]) -> Iterable[bytes]:
    return (line for line in lines if line.decode(errors="replace").strip() not in _NO_NEWS)
