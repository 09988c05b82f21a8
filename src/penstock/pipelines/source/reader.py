"""A batch read: from the starting to the ending offsets, looked up once on the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.retries import Retrying, RetryPolicy
from penstock.pipelines.kafka.broker_patience import PAUSE_S
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import OptionError
from penstock.pipelines.source.cluster import ClusterError, SourceCluster
from penstock.pipelines.source.complete import ask_for_all
from penstock.pipelines.source.data_loss import report
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.source.offsets import EARLIEST, Everywhere, PerPartition
from penstock.pipelines.source.positions import resolve_end, resolve_start
from penstock.pipelines.source.tasks import TopicRanges, plan_tasks, read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.types import TopicPartition
    from penstock.pipelines.source.read_options import SourceOptions

# A partition that a broker does not know yet is known to it soon after it answers; one that was deleted never is.
_PATIENCE_S = 10.0


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with closing(SourceCluster.of(self._options)) as cluster:
            return plan_tasks(self.find_ranges(cluster), self._options)

    def find_ranges(self, cluster: SourceCluster) -> list[OffsetRange]:
        options = self._options
        partitions = find_existing(cluster, options)
        start = self._of_all(
            partitions,
            lambda: resolve_start(cluster, partitions, options.starting, options.missing_timestamp_is_latest),
        )
        end = self._of_all(partitions, lambda: resolve_end(cluster, partitions, options.ending))
        if isinstance(options.ending, PerPartition):
            end = self._cut_at_log_end(end, cluster.latest(end.keys()))
        return [self._range(partition, start[partition], until) for partition, until in end.items()]

    def _of_all(self, partitions: Collection[TopicPartition], ask: Callable[[], Offsets]) -> Offsets:
        patience_s = _PATIENCE_S if self._options.lookup.retries else 0.0
        return ask_for_all(partitions, ask, Retrying(RetryPolicy(patience_s, PAUSE_S, PAUSE_S)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TopicRanges):
            return iter(())  # Spark puts a partition of its own where there are none: the topic is empty
        return read_ranges(partition.offsets, self._options.fetch)

    def _range(self, partition: TopicPartition, start: int, end: int) -> OffsetRange:
        if start > end and self._options.starting != Everywhere(EARLIEST):
            raise OptionError(f"the read of {partition} would start at offset {start}, beyond its end at {end}")
        return OffsetRange(partition, min(start, end), end)

    def _cut_at_log_end(self, end: Offsets, latest: Offsets) -> Offsets:
        """Waiting for records that were never written would end in a timeout; saying so is quicker."""
        losses = [
            f"topic {partition.topic} partition {partition.partition} ends at offset {latest[partition]}, before"
            f" endingOffsets={until}"
            for partition, until in end.items()
            if until > latest.get(partition, until)
        ]
        report(losses, self._options.fetch.fail_on_data_loss)
        return {partition: min(until, latest.get(partition, until)) for partition, until in end.items()}


def find_existing(cluster: SourceCluster, options: SourceOptions) -> frozenset[TopicPartition]:
    """ClusterError when a topic or partition that the options name does not exist."""
    existing = cluster.find_partitions(options.subscription)
    if existing.missing:
        raise ClusterError(
            f"{', '.join(sorted(existing.missing))}: no such topic or partition; create it, or correct the options"
        )
    return existing.partitions
