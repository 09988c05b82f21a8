"""A batch read: from the starting to the ending offsets, looked up once on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.pipelines.options import OptionError
from penstock.pipelines.source.cluster import Cluster, ClusterError
from penstock.pipelines.source.data_loss import report
from penstock.pipelines.source.offsets import EARLIEST, Everywhere, Offsets, PerPartition
from penstock.pipelines.source.positions import resolve_end, resolve_start
from penstock.pipelines.source.splitting import OffsetRange, split
from penstock.pipelines.source.tasks import TopicRange, read_range

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.types import TopicPartition
    from penstock.pipelines.source.read_options import SourceOptions


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        options = self._options
        cluster = Cluster.of(options)
        partitions = find_existing(cluster, options)
        start = resolve_start(cluster, partitions, options.starting, options.missing_timestamp_is_latest)
        end = resolve_end(cluster, partitions, options.ending)
        if isinstance(options.ending, PerPartition):
            end = self._cut_at_log_end(end, cluster.latest(end.keys()))
        ranges = [self._range(one, start[one], until) for one, until in end.items() if one in start]
        return [TopicRange(part) for part in split(ranges, options.min_partitions, options.max_records_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TopicRange):
            return iter(())  # Spark puts a partition of its own where there are none: the topic is empty
        return read_range(partition.offsets, self._options.fetch)

    def _range(self, partition: TopicPartition, start: int, end: int) -> OffsetRange:
        if start > end and self._options.starting != Everywhere(EARLIEST):
            raise OptionError(f"the read of {partition} would start at offset {start}, beyond its end at {end}")
        return OffsetRange(partition, min(start, end), end)

    def _cut_at_log_end(self, end: Offsets, latest: Offsets) -> Offsets:
        """Waiting for records that were never written would end in a timeout; saying so is quicker."""
        losses = [
            f"topic {one.topic} partition {one.partition} ends at offset {latest[one]}, before endingOffsets={until}"
            for one, until in end.items()
            if until > latest.get(one, until)
        ]
        report(losses, self._options.fetch.fail_on_data_loss)
        return {one: min(until, latest.get(one, until)) for one, until in end.items()}


def find_existing(cluster: Cluster, options: SourceOptions) -> frozenset[TopicPartition]:
    """ClusterError when something that was asked for by name does not exist."""
    found = cluster.find_partitions(options.subscription)
    if found.missing:
        raise ClusterError(
            f"{', '.join(sorted(found.missing))}: no such topic or partition; create it, or correct the options"
        )
    return found.partitions
