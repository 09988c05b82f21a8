"""When readers of committed records see what was written.

A transaction is committed for good as soon as its coordinator has written that down. Its end is written to the
partitions after that, and until then their readers are shown none of its rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from penstock.pipelines.source.cluster import ClusterError, SourceCluster
from penstock.pipelines.source.read_options import TopicSubscription

logger = logging.getLogger(__name__)

_POLL_S = 0.05
# Another producer may have a transaction open on the topic, and hold up its readers for as long as it likes.
_PATIENCE_S = 10.0


def await_visible(
    settings: Mapping[str, str], topic: str, pause: Callable[[float], bool], patience_s: float = _PATIENCE_S
) -> None:
    """Returns when readers of committed records see all that the topic's partitions have now. It also returns when that
    takes too long, which it logs, and when `pause` returns True because the caller no longer waits."""
    deadline = time.monotonic() + patience_s
    with closing(SourceCluster(settings)) as written, closing(SourceCluster(settings, is_read_committed=True)) as shown:
        try:
            ends = written.latest(written.find_partitions(TopicSubscription(frozenset({topic}))).partitions)
            while any(shown_end < ends[each] for each, shown_end in shown.latest(ends).items()):
                if time.monotonic() >= deadline:
                    logger.warning("topic %s: readers do not see all of it after %.0f s", topic, patience_s)
                    return
                if pause(_POLL_S):
                    return
        except ClusterError as error:
            logger.warning("topic %s: whether readers see all of it is not known: %s", topic, error)
