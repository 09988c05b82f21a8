"""A streaming read, as Spark's micro-batches ask for it. One instance lives on the driver as long as its query;
others, made from the same options, read in the executors.

Spark does not remember where a query began until its first batch is finished: when that batch must be run again, it
asks for the initial offset again. Where "latest" has moved on meanwhile, records would be skipped. So the first batch
of a query that begins at the latest offset is empty by construction, and is planned as empty when it is run again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.pipelines.kafka.offsets_json import Offsets, OffsetsJson, from_json, to_json
from penstock.pipelines.source.cluster import FoundPartitions, SourceCluster
from penstock.pipelines.source.data_loss import find_backward_steps, find_unknown_starts, plan_ranges, report
from penstock.pipelines.source.group_commits import GroupCommits
from penstock.pipelines.source.limits import count_waiting, limit_end, should_wait
from penstock.pipelines.source.positions import resolve_start
from penstock.pipelines.source.reader import find_existing
from penstock.pipelines.source.tasks import TopicRanges, plan_tasks, read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.pipelines.source.read_options import SourceOptions


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, cluster: SourceCluster | None = None) -> None:
        """`cluster` is for calls on the driver; without it, the reader opens the one that the options name."""
        self._options = options
        self._opened = cluster
        self._initial: Offsets | None = None  # set while the first batch has not been planned by this instance
        self._latest: Offsets | None = None
        self._target: Offsets | None = None
        self._is_available_now = False
        self._last_batch_at = float("-inf")
        self._committed: Offsets | None = None
        self._topic_ids: dict[str, str] = {}

    def __reduce__(self) -> tuple[type[StreamReader], tuple[SourceOptions]]:
        return StreamReader, (self._options,)

    def initialOffset(self) -> OffsetsJson:
        options = self._options
        partitions = find_existing(self._cluster, options)
        self._initial = resolve_start(self._cluster, partitions, options.starting, options.missing_timestamp_is_latest)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """One limit is all that Spark takes; both are applied in `latestOffset`."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        """`start` is where the batch before ended, which is finished: the moment to commit it."""
        begin = from_json(start)
        self._commit_progress(begin)
        is_first, self._initial = self._initial == begin, None
        self._latest = latest = self._find_latest(begin)
        if is_first and self._options.start_moves:
            return start
        unknown = find_unknown_starts(begin, latest)
        earliest = self._cluster.earliest(unknown)
        if self._options.fetch.fail_on_data_loss:
            # Now, before the batch is written down: once it is, it has to be run.
            report(plan_ranges(begin, latest, earliest).losses, fail_on_data_loss=True)
        return to_json(self._limit(begin | earliest, latest, limit))

    def reportLatestOffset(self) -> OffsetsJson | None:
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> list[InputPartition]:
        begin, until = from_json(start), from_json(end)
        if self._initial is not None:  # the first batch again
            if self._options.start_moves:
                return []
            # What was made since then is for the next batch, which reads it from its beginning.
            begin = {partition: offset for partition, offset in begin.items() if partition in until}
        earliest = self._cluster.earliest(find_unknown_starts(begin, until))
        planned = plan_ranges(begin, until, earliest)
        report(planned.losses, self._options.fetch.fail_on_data_loss)
        return plan_tasks(planned.ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TopicRanges)
        return read_ranges(partition.offsets, self._options.fetch)

    def commit(self, end: OffsetsJson) -> None:
        """Nothing: `latestOffset` has committed this already, and Spark calls here only when the next batch is
        planned.
        """

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _cluster(self) -> SourceCluster:
        if self._opened is None:
            self._opened = SourceCluster.of(self._options)
        return self._opened

    def _find_latest(self, begin: Offsets) -> Offsets:
        if self._target is not None:
            return self._target
        existing = self._cluster.find_partitions(self._options.subscription)
        self._notice_new_topics(existing)
        latest = self._cluster.latest(existing.partitions)
        # A broker that has just become the leader may answer with an end that it has outgrown a moment later.
        for _ in range(self._options.lookup.retries):
            if not find_backward_steps(begin, latest):
                break
            time.sleep(self._options.lookup.retry_interval_ms / 1000)
            latest = self._cluster.latest(existing.partitions)
        if self._is_available_now:
            self._target = latest
        return latest

    def _notice_new_topics(self, existing: FoundPartitions) -> None:
        """A topic of the same name that was made since the last look is another one, however far its offsets go."""
        changed = [name for name, id_ in existing.topic_ids.items() if self._topic_ids.get(name, id_) != id_]
        self._topic_ids = dict(existing.topic_ids)
        losses = [f"topic {name} was deleted and created again while it was being read" for name in sorted(changed)]
        report(losses, self._options.fetch.fail_on_data_loss)

    def _limit(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        """`begin` has the beginnings of new partitions too; a partition whose beginning no broker had waits for the
        next look.
        """
        latest = {partition: until for partition, until in latest.items() if partition in begin}
        if isinstance(limit, ReadAllAvailable):
            return latest
        limits, now = self._options.limits, time.monotonic()
        # AvailableNow ends when nothing new is offered, so it cannot wait for more.
        waiting = count_waiting(begin, latest)
        if not self._is_available_now and should_wait(limits, waiting, (now - self._last_batch_at) * 1000):
            return {partition: begin[partition] for partition in latest}
        self._last_batch_at = now
        return latest if limits.max_offsets is None else limit_end(begin, latest, limits.max_offsets)

    def _commit_progress(self, begin: Offsets) -> None:
        group_id = self._options.group_id
        if group_id and begin != self._committed and GroupCommits(self._cluster, group_id).commit(begin):
            self._committed = begin
