"""Hands on what Spark reports after every batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)


class ProgressListener(StreamingQueryListener):
    def __init__(self, note: Callable[[dict[str, Any]], None]) -> None:
        self._note = note

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._note(json.loads(event.progress.json))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass
