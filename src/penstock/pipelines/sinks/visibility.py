"""When readers of committed records see what was written.

A transaction is committed for good as soon as its coordinator has written that down. Its end is written to the
partitions after that, and until then their readers are shown none of its rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import closing

from penstock.pipelines.source.cluster import Cluster
from penstock.pipelines.source.read_options import Subscription

logger = logging.getLogger(__name__)

_POLL_S = 0.05
# Somebody else may have a transaction open on the topic, and hold up its readers for as long as it likes.
_PATIENCE_S = 30.0


def await_visible(settings: Mapping[str, str], topic: str, patience_s: float = _PATIENCE_S) -> None:
    """Returns when all that the topic's partitions have now is shown to readers of committed records. ClusterError
    where brokers do not answer."""
    with closing(Cluster(settings)) as written, closing(Cluster(settings, is_read_committed=True)) as shown:
        partitions = written.find_partitions(Subscription(frozenset({topic}))).partitions
        ends = written.latest(partitions)
        deadline = time.monotonic() + patience_s
        while any(shown_end < ends[each] for each, shown_end in shown.latest(ends).items()):
            if time.monotonic() >= deadline:
                logger.warning(
                    "topic %s: a transaction has been open for %.0f s, readers see the rest when it ends",
                    topic,
                    patience_s,
                )
                return
            time.sleep(_POLL_S)
