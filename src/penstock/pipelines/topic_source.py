"""A topic as a pipeline's source, read by our data source or, where its jar is there, by Spark's Kafka connector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Chosen, not measured: parsing so many lines takes well below 0.1 s, and a task comes with two Python workers.
_RECORDS_PER_TASK = 10_000
_METADATA_AGE = "partition.metadata.cache.ttl.ms"
# How soon a topic is found that was made later. Chosen: all topics of the cluster are listed to find it, which is too
# much for each batch of 100 ms; Kafka's consumers do it every five minutes.
_PATTERN_AGE_MS = "1000"
FORMATS = {"python": "penstock", "jvm": "kafka"}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, several, comma-separated, or all whose whole names match a pattern. `start` is where a query without a
    checkpoint begins: earliest, latest, or the connector's JSON of offsets; further options of the data source go into
    `options`. `headers` brings the records' headers along, which may name the schemas of keys and values."""

    topics: str | re.Pattern[str]
    start: str = "earliest"
    headers: bool = field(default=False, kw_only=True)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.topics, re.Pattern):
            check_pattern(self.topics)

    @property
    def name(self) -> str:
        return self.topics if isinstance(self.topics, str) else self.topics.pattern

    def describe(self) -> str:
        topics = f"topic {self.topics}" if isinstance(self.topics, str) else f"topics like {self.topics.pattern}"
        return f"{topics}, from {self.start}"

    def read(self, spark: SparkSession, settings: Settings) -> DataFrame:
        reader = spark.readStream.format(FORMATS[settings.engine])
        return reader.options(**self.reader_options(settings)).load()

    def reader_options(self, settings: Settings) -> dict[str, str]:
        by = "subscribe" if isinstance(self.topics, str) else "subscribePattern"
        chosen = {by: self.name, "startingOffsets": self.start} | client_options(settings)
        if not isinstance(self.topics, str) and settings.engine == "python":
            chosen[_METADATA_AGE] = _PATTERN_AGE_MS
        if settings.parallelism:
            chosen["minPartitions"] = str(settings.parallelism)
        elif settings.engine == "python":
            chosen["minRecordsPerTask"] = str(_RECORDS_PER_TASK)
        if settings.max_records_per_batch:
            chosen["maxOffsetsPerTrigger"] = str(settings.max_records_per_batch)
        if self.headers:
            chosen["includeHeaders"] = "true"
        return chosen | dict(self.options)


def check_pattern(pattern: re.Pattern[Any]) -> None:
    """Options of the data source are text, so that this is all that is passed on of a pattern. PipelineError."""
    text = pattern.pattern
    if not isinstance(text, str) or not text:
        raise PipelineError(f"{text!r} cannot be a pattern of topics", 'It is a text, such as re.compile("orders-.*").')
    if re.compile(text).flags != pattern.flags:
        raise PipelineError(
            f"the pattern {text} has flags beside its text", f"Write them into the text, such as (?i){text}."
        )


def client_options(settings: Settings) -> dict[str, str]:
    """The client's settings as options of the data source, source and sink alike."""
    named = {f"kafka.{key}": value for key, value in settings.kafka.items()}
    return {"kafka.bootstrap.servers": settings.bootstrap_servers} | named
