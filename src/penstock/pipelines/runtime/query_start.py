"""Queries start one after the other. Each starts Python workers to read its topics, and Spark gives a worker ten
seconds to come up, whatever else the machine does: on two busy cores four queries at once never came up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

# Spark's text in a query's status until the query has its sources.
_INITIALIZING = "Initializing"
_NO_WORKER = "Python worker failed to connect back"
_POLL_S = 0.05
# A worker has ten seconds; a query with two topics on a very busy machine needs some of those.
_PATIENCE_S = 60.0
_ATTEMPTS = 4


def start_patiently(start: Callable[[], StreamingQuery], name: str, is_wanted: Callable[[], bool]) -> StreamingQuery:
    """Starts the query, again where its workers came too late, and returns when it has its sources or has failed."""
    for _ in range(_ATTEMPTS - 1):
        query = start()
        _await_sources(query, is_wanted)
        error = query.exception()
        if error is None or _NO_WORKER not in str(error) or not is_wanted():
            return query
        logger.warning("%s: Spark's Python worker did not start within ten seconds, trying again", name)
    return start()


def _await_sources(query: StreamingQuery, is_wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while query.isActive and is_wanted() and time.monotonic() < deadline:
        if not str(query.status.get("message", "")).startswith(_INITIALIZING):
            return
        time.sleep(_POLL_S)
