"""The main job: fraudulent addresses in a live stream of web-server logs.

    penstock pipeline run penstock.pipelines.jobs.ip_fraud --set ranges=ranges.txt

Each line is parsed and its address looked up in a list of ranges. Fraud goes, exactly once, to a topic and to a Hive
table partitioned by status; every line that parses goes to the lake; requests per address and minute go to a compacted
topic; what does not parse goes to a dead-letter topic with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines import Branch, Pipeline, Settings, Topic, Watermark
from penstock.pipelines.sinks.hive import HiveTable
from penstock.pipelines.sinks.lake import Lake
from penstock.pipelines.sinks.topic import ALL_AS_JSON, TopicSettings, TopicSink
from penstock.pipelines.steps import enrich, filter_rows, parse_access_log, tumbling
from penstock.pipelines.steps.address_ranges import AddressRanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# First octets that count as fraud where no list is given.
DEFAULT_OCTETS = (*range(10, 17), 91, 92, 112, 126, 163, 194, 198, 212, 224)


def ip_fraud(
    source: str = "iprecord",
    fraud: str = "fraudip",
    counts: str = "address-counts",
    dead_letters: str = "iprecord.dead",
    table: str = "fraud_requests",
    lake: str = "lake/requests",
    ranges: str = "",
    window: str = "1 minute",
    lateness: str = "10 minutes",
    partitions: int = 3,
) -> Pipeline:
    """`ranges`: a file with a first octet or a CIDR block a line. `lateness`: how long counts wait for late lines."""
    blocks = AddressRanges.from_file(ranges) if ranges else AddressRanges(tuple(map(str, DEFAULT_OCTETS)))
    made = TopicSettings(partitions=partitions)
    compacted = TopicSettings(partitions=partitions, config={"cleanup.policy": "compact"})
    return Pipeline(
        name="ip-fraud",
        sources=(Topic(source),),
        steps=(parse_access_log(), enrich(blocks, "address", into="is_fraud")),
        sinks=(
            Lake(lake, format="parquet", date_column="event_time", name="lake"),
            Branch(
                "fraud",
                steps=(filter_rows("is_fraud"),),
                sinks=(
                    TopicSink(fraud, key="address", value=ALL_AS_JSON, create=made),
                    HiveTable(table, partition_by=("status",)),
                ),
            ),
            Branch(
                "counts",
                steps=(tumbling("event_time", window, ("address",), requests="count(*)"), keyed_counts),
                sinks=(TopicSink(counts, create=compacted),),
                stateful=True,
                mode="update",
            ),
        ),
        dead_letters=TopicSink(dead_letters, create=made),
        settings=Settings(watermark=Watermark("event_time", lateness)),
    )


def keyed_counts(rows: DataFrame) -> DataFrame:
    """One key per address and window, so that compaction keeps the newest count of each."""
    from pyspark.sql import functions as F

    start = F.date_format("window_start", "yyyy-MM-dd'T'HH:mm:ssXXX")
    return rows.select(
        F.concat_ws("@", "address", start).alias("key"),
        F.to_json(F.struct("address", start.alias("window_start"), "requests")).alias("value"),
    )


def default_ranges(path: Path) -> None:
    """Writes the default list as a file to start from."""
    path.write_text("".join(f"{octet}\n" for octet in DEFAULT_OCTETS), encoding="utf-8")
