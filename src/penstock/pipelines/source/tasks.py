"""What a task reads, and which fetcher reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from penstock.core.types import TopicPartition
from penstock.pipelines.source.read_options import FetchOptions
from penstock.pipelines.source.splitting import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

_CLIENT_ID = "penstock-spark"


class TopicRange(InputPartition):
    """Travels from the driver to an executor."""

    def __init__(self, part: OffsetRange) -> None:
        super().__init__(None)
        self.topic, self.partition = part.partition
        self.start, self.end = part.start, part.end

    def __repr__(self) -> str:
        return f"TopicRange({self.topic}-{self.partition}, {self.start} to {self.end})"

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(TopicPartition(self.topic, self.partition), self.start, self.end)


def read_range(part: OffsetRange, options: FetchOptions) -> Iterator[pa.RecordBatch]:
    """Runs in the executor. Imports the fetchers here, so that planning does not pay for them."""
    if options.is_direct:
        from penstock.pipelines.source.brokers import brokers_of
        from penstock.pipelines.source.fetching import DirectFetch

        brokers = brokers_of(options.settings["bootstrap.servers"], options.settings.get("client.id", _CLIENT_ID))
        return DirectFetch(part, options, brokers).rows()
    from penstock.pipelines.source.librdkafka_fetching import LibrdkafkaFetch

    return LibrdkafkaFetch(part, options).rows()
