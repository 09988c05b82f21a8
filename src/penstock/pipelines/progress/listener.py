"""Hands on Spark's reports after every batch.

PySpark's own listener builds a Python object of each report, field by field: some six hundred calls into Java for each
listener and batch. Four listeners took about a quarter of a core and kept a thread busy nearly all the time, and
Python's lock with it. The listener here asks Java for the report's JSON: two calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


class ProgressListener(StreamingQueryListener):
    def __init__(self, note: Callable[[dict[str, Any]], None]) -> None:
        self._note = note

    def note_json(self, report: str) -> None:
        self._note(json.loads(report))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Called by a Connect session, which brings reports as JSON itself."""
        self.note_json(event.progress.json)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass

    @cached_property
    def _jlistener(self) -> JavaObject:
        """The listener that PySpark registers in a session of its own process."""
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        listener: JavaObject = jvm.PythonStreamingQueryListenerWrapper(_JsonReports(self.note_json))
        return listener


class _JsonReports:
    """Called by Java, which hands over every report as an object of its own."""

    def __init__(self, note_json: Callable[[str], None]) -> None:
        self._note_json = note_json

    def onQueryProgress(self, event: JavaObject) -> None:
        self._note_json(str(event.progress().json()))

    def onQueryStarted(self, event: JavaObject) -> None:
        pass

    def onQueryIdle(self, event: JavaObject) -> None:
        pass

    def onQueryTerminated(self, event: JavaObject) -> None:
        pass

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
