"""Starts Spark's JVM, and passes on what it says on stderr but for lines that are no news.

Spark's launcher always asks for a module that is still in incubation, and Java warns of it before any logging is set
up. The JVM keeps its stderr for good, so it is a pipe for good, and a thread passes on every line that is not known.
The thread writes to `sys.stderr`: a live view on the terminal puts the line above itself, and is not torn.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Mapping

from penstock.pipelines.errors import PipelineError

# Lines of a start where nothing is wrong. Whole lines: a line that says more is passed on.
_NO_NEWS = frozenset({"WARNING: Using incubator modules: jdk.incubator.vector"})
_STDERR = 2
_LAST_WORDS_S = 5.0


def start_gateway(settings: Mapping[str, str]) -> None:
    """Starts the JVM that the next session will use. Does nothing where there is one: spark-submit's, or an earlier
    session's."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        return
    conf = SparkConf().setAll(list(settings.items()))
    reading, writing = os.pipe()
    told = Telling(reading)
    told.start()
    try:
        try:
            gateway = launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]  # PySpark's own
        finally:
            os.close(writing)  # Java has its own, and the pipe ends when Java does
    except PySparkRuntimeError as error:
        told.join(_LAST_WORDS_S)
        raise PipelineError("Spark's Java process did not start", "What Java said is above.") from error
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


class Telling(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe: int) -> None:
        super().__init__(name="spark-stderr", daemon=True)
        self._pipe = pipe
        self._is_ending = False
        # A thread that holds the lock of `sys.stderr` while the interpreter ends would abort the process.
        atexit.register(self._end)

    def run(self) -> None:
        with os.fdopen(self._pipe, "rb") as lines:
            for line in news(lines):
                self._tell(line)

    def _end(self) -> None:
        self._is_ending = True

    def _tell(self, line: bytes) -> None:
        if not self._is_ending:
            try:
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()
            except (OSError, ValueError, AttributeError):  # closed, or there is none
                pass
            else:
                return
        with contextlib.suppress(OSError):
            os.write(_STDERR, line)


def news(lines: Iterable[bytes]) -> Iterable[bytes]:
    return (line for line in lines if line.decode(errors="replace").strip() not in _NO_NEWS)
