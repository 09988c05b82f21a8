"""The ranges of a task, and the fetcher that reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from penstock.core.types import TopicPartition
from penstock.pipelines.source.offset_ranges import OffsetRange, share_tasks, split
from penstock.pipelines.source.read_options import FetchOptions, SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

_CLIENT_ID = "penstock-spark"


class TopicRanges(InputPartition):
    """Travels from the driver to an executor."""

    def __init__(self, parts: Iterable[OffsetRange]) -> None:
        super().__init__(None)
        # Plain values: what travels is unpickled before our modules are imported.
        self.ranges = [(*part.partition, part.start, part.end) for part in parts]

    def __repr__(self) -> str:
        listed = (f"{topic}-{partition}, {start} to {end}" for topic, partition, start, end in self.ranges)
        return f"TopicRanges({'; '.join(listed)})"

    @property
    def offsets(self) -> Iterator[OffsetRange]:
        for topic, partition, start, end in self.ranges:
            yield OffsetRange(TopicPartition(topic, partition), start, end)


def plan_tasks(ranges: Iterable[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    """A pure function: a batch that is run again has the same tasks."""
    pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
    at_least = None if options.min_partitions else options.min_records_per_task
    return [TopicRanges(parts) for parts in share_tasks(pieces, at_least)]


def read_ranges(parts: Iterable[OffsetRange], options: FetchOptions) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from read_range(part, options)


def read_range(part: OffsetRange, options: FetchOptions) -> Iterator[pa.RecordBatch]:
    """Runs in the executor. Imports the fetchers here, so that planning does not pay for them."""
    if options.is_direct:
        from penstock.pipelines.source.brokers import brokers_of
        from penstock.pipelines.source.direct_fetch import DirectFetch

        brokers = brokers_of(options.settings, options.settings.get("client.id", _CLIENT_ID))
        return DirectFetch(part, options, brokers).rows()
    from penstock.pipelines.source.librdkafka_fetching import LibrdkafkaFetch

    return LibrdkafkaFetch(part, options).rows()
