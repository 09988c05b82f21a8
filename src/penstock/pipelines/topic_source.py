"""A topic as a pipeline's source, read by our data source or, where its jar is there, by Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.pipelines.pipeline import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Chosen, not measured: parsing so many lines takes well below 0.1 s, and a task comes with two Python workers.
_RECORDS_PER_TASK = 10_000
FORMATS = {"python": "penstock", "jvm": "kafka"}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic or several, comma-separated. `start` is where a query without a checkpoint begins: earliest, latest, or
    the connector's JSON of offsets; further options of the data source go into `options`. `headers` brings the records'
    headers along, which may name the schemas of keys and values."""

    topics: str
    start: str = "earliest"
    headers: bool = field(default=False, kw_only=True)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.topics

    def describe(self) -> str:
        return f"topic {self.topics}, from {self.start}"

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        reader = spark.readStream.format(FORMATS[settings.engine])
        return reader.options(**self.reader_options(settings)).load()

    def reader_options(self, settings: Settings) -> dict[str, str]:
        chosen = {"subscribe": self.topics, "startingOffsets": self.start} | client_options(settings)
        if settings.parallelism:
            chosen["minPartitions"] = str(settings.parallelism)
        elif settings.engine == "python":
            chosen["minRecordsPerTask"] = str(_RECORDS_PER_TASK)
        if settings.max_records_per_batch:
            chosen["maxOffsetsPerTrigger"] = str(settings.max_records_per_batch)
        if self.headers:
            chosen["includeHeaders"] = "true"
        return chosen | dict(self.options)


def client_options(settings: Settings) -> dict[str, str]:
    """The client's settings as options of the data source, source and sink alike."""
    named = {f"kafka.{key}": value for key, value in settings.kafka.items()}
    return {"kafka.bootstrap.servers": settings.bootstrap_servers} | named
