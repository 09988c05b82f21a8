"""Progress of a streaming query as a consumer group, exact to the last batch.

A source with the option kafka.group.id commits a batch when the next one begins, so the last batch of a stopped query
stays uncommitted. The listener here commits after every batch:

    tracking = track(spark, bootstrap_servers="127.0.0.1:9092", group_id="my-query")
    query = frame.writeStream...start()
    ...
    tracking.stop()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from penstock.pipelines.kafka.client_settings import to_librdkafka
from penstock.pipelines.kafka.offsets_json import Offsets, read_reported
from penstock.pipelines.progress.listener import ProgressListener
from penstock.pipelines.source.cluster import SourceCluster
from penstock.pipelines.source.group_commits import GroupCommits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Events come through a queue; at the end what is in it is waited for.
_DRAIN_TIMEOUT_MS = 10_000


class GroupProgress(ProgressListener):
    """Calls `commit` with the offsets that a finished batch ended at. Only for `query_names`, where any are given."""

    def __init__(self, commit: Callable[[Offsets], object], query_names: Collection[str] = ()) -> None:
        super().__init__(self._commit_end)
        self._commit = commit
        self._query_names = frozenset(query_names)

    def _commit_end(self, report: dict[str, Any]) -> None:
        if self._query_names and report.get("name") not in self._query_names:
            return
        offsets: Offsets = {}
        for source in report.get("sources", ()):
            offsets.update(read_reported(source.get("endOffset")))
        self._commit(offsets)


class Tracking:
    """A listener at work; `stop` returns when the progress of all finished batches is committed."""

    def __init__(self, spark: SparkSession, listener: GroupProgress, cluster: SourceCluster) -> None:
        self._spark = spark
        self._listener = listener
        self._cluster = cluster
        spark.streams.addListener(listener)

    def stop(self) -> None:
        drain_events(self._spark)
        self._spark.streams.removeListener(self._listener)
        self._cluster.close()


def track(
    spark: SparkSession,
    *,
    bootstrap_servers: str,
    group_id: str,
    query_names: Collection[str] = (),
    kafka: Mapping[str, str] | None = None,
) -> Tracking:
    """`kafka` holds further client settings, without the prefix `kafka.`."""
    cluster = SourceCluster(to_librdkafka({**(kafka or {}), "bootstrap.servers": bootstrap_servers}))
    return Tracking(spark, GroupProgress(GroupCommits(cluster, group_id).commit, query_names), cluster)


def drain_events(spark: SparkSession) -> None:
    """Waits until listeners have seen what happened so far. A Connect session has no such queue on this side."""
    context: Any = getattr(spark, "_jsc", None)
    if context is not None:
        context.sc().listenerBus().waitUntilEmpty(_DRAIN_TIMEOUT_MS)
