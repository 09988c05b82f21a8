"""The main job, by way of the demo: a short run whose books must balance, and which notices when they do not."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from rich.console import Console

from demo_books import Entry, Places, check_books, read_books, read_topic
from demo_lines import Kind
from demo_run import Demo, Traffic
from demo_show import make_pipeline
from penstock.pipelines.jobs.ip_fraud import default_ranges
from penstock.pipelines.runtime.runner import groups_of
from penstock.pipelines.steps.address_ranges import AddressRanges
from tests.pipelines.committed import unique

LINES = 4000


def wrong(entries: list[Entry]) -> list[str]:
    return [entry.what for entry in entries if not entry.is_right]


def test_the_books_balance_after_a_run_and_tell_when_a_row_is_doubled_or_lost(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    places = Places(
        source=unique("iprecord"),
        fraud=unique("fraudip"),
        counts=unique("counts"),
        dead_letters=unique("dead"),
        table=unique("fraud").replace("-", "_"),
        lake=str(tmp_path / "lake"),
    )
    ranges = tmp_path / "ranges.txt"
    default_ranges(ranges)
    pipeline = replace(make_pipeline(tmp_path, ranges, bootstrap, places), name=unique("ip-fraud"))
    traffic = Traffic(duration_s=60, rate=1500, limit=LINES)
    demo = Demo(spark, pipeline, places, AddressRanges.from_file(ranges).blocks, traffic)
    said = io.StringIO()

    entries = demo.play(Console(file=said))

    assert wrong(entries) == []
    assert entries[0].expected == LINES
    assert demo.lines.kinds.count(Kind.FRAUD) > 100
    assert demo.lines.kinds.count(Kind.MALFORMED) > 10
    assert "produced" in said.getvalue()
    letter = next(read_topic(bootstrap, places.dead_letters))
    assert ("penstock.source.topic", places.source.encode()) in (letter.headers() or [])
    assert spark.table(places.table).where("status IS NULL OR NOT is_fraud").count() == 0

    groups = list(groups_of(pipeline).values())
    double(bootstrap, places.fraud)
    next(Path(places.lake).rglob("batch-*.parquet")).unlink()
    again = check_books(demo.lines.kinds, read_books(spark, bootstrap, places, groups))
    assert wrong(again) == [
        "lines in the lake or among the dead letters",
        "parsed lines in the lake",
        "fraud in the topic",
    ]
    assert next(entry for entry in again if entry.what == "fraud in the topic").extra == 1


def double(bootstrap: str, topic: str) -> None:
    message = next(read_topic(bootstrap, topic))
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, message.value(), message.key())
    assert producer.flush(30) == 0
