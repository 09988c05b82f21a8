"""The books of the demo: every line that was produced must be found exactly once in each place where it belongs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from demo_lines import Kind, id_of
from penstock.pipelines.source.cluster import SourceCluster
from penstock.pipelines.source.read_options import TopicSubscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# For all clients of the demo: they outlive its broker by a moment, and would complain about that on the terminal.
QUIET: dict[str, str | int | float | bool] = {"log_level": 0}
_TIMEOUT_S = 30.0
_READ_AT_ONCE = 10_000
_READ_S = 0.2


@dataclass(frozen=True, slots=True)
class Places:
    """Where the job reads and writes."""

    source: str
    fraud: str
    counts: str
    dead_letters: str
    table: str
    lake: str


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of the lines in each place, as often as they are there; -1 stands for a line without a number."""

    lake: np.ndarray
    dead_letters: np.ndarray
    fraud_topic: np.ndarray
    fraud_table: np.ndarray
    counted: int  # the sum of the newest count of each address and window
    end_offsets: int  # of the source topic, all partitions
    committed: Mapping[str, int]  # by consumer group


@dataclass(frozen=True, slots=True)
class Entry:
    what: str
    expected: int
    found: int
    missing: int = 0
    extra: int = 0  # there twice, or where they do not belong

    @property
    def is_right(self) -> bool:
        return self.missing == self.extra == 0


def check_books(kinds: bytes | bytearray, found: Found) -> list[Entry]:
    """`kinds` says what each line was, by its number."""
    kind = np.frombuffer(bytes(kinds), dtype=np.uint8)
    parsed, fraud = kind != Kind.MALFORMED, kind == Kind.FRAUD
    anywhere = np.concatenate([found.lake, found.dead_letters])
    return [
        compare_ids("lines in the lake or among the dead letters", np.ones(len(kind), dtype=bool), anywhere),
        compare_ids("parsed lines in the lake", parsed, found.lake),
        compare_ids("malformed lines among the dead letters", ~parsed, found.dead_letters),
        compare_ids("fraud in the topic", fraud, found.fraud_topic),
        compare_ids("fraud in the Hive table", fraud, found.fraud_table),
        compare_sums("requests in the counts", int(parsed.sum()), found.counted),
        compare_sums("records in the source topic", len(kind), found.end_offsets),
        *(
            compare_sums(f"offsets committed by {group}", found.end_offsets, committed)
            for group, committed in found.committed.items()
        ),
    ]


def compare_ids(what: str, expected: np.ndarray, ids: np.ndarray) -> Entry:
    """`expected` says for each number whether it should be there."""
    known = ids[(ids >= 0) & (ids < len(expected))]
    times = np.bincount(known, minlength=len(expected))
    missing = int(np.count_nonzero(expected & (times == 0)))
    extra = int(np.maximum(times - expected, 0).sum()) + len(ids) - len(known)
    return Entry(what, int(expected.sum()), len(ids), missing, extra)


def compare_sums(what: str, expected: int, found: int) -> Entry:
    return Entry(what, expected, found, max(0, expected - found), max(0, found - expected))


def read_books(spark: SparkSession, bootstrap_servers: str, places: Places, groups: list[str]) -> Found:
    end, committed = read_progress(open_cluster(bootstrap_servers), places.source, groups)
    counts = {message.key(): message.value() for message in read_topic(bootstrap_servers, places.counts)}
    return Found(
        lake=_ids_in(spark.read.parquet(places.lake)),
        dead_letters=_ids_of(bootstrap_servers, places.dead_letters),
        fraud_topic=_ids_of(bootstrap_servers, places.fraud),
        fraud_table=_ids_in(spark.table(places.table)),
        counted=sum(int(json.loads(value or b"{}")["requests"]) for value in counts.values()),
        end_offsets=end,
        committed=committed,
    )


def open_cluster(bootstrap_servers: str) -> SourceCluster:
    return SourceCluster(
        {"bootstrap.servers": bootstrap_servers, **{name: str(value) for name, value in QUIET.items()}}
    )


def read_progress(cluster: SourceCluster, topic: str, groups: Iterable[str]) -> tuple[int, dict[str, int]]:
    """The end of the topic and how far each group has come, each as a sum over the partitions."""
    partitions = cluster.find_partitions(TopicSubscription(topics=frozenset({topic}))).partitions
    end = sum(cluster.latest(partitions).values())
    return end, {group: sum(cluster.committed(group, partitions).values()) for group in groups}


def read_topic(bootstrap_servers: str, topic: str) -> Iterator[Message]:
    """Every committed record that is there, the newest of a key after the older ones."""
    consumer = open_reader(bootstrap_servers, topic)
    left = len(consumer.assignment())
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while left:
            # It waits until it has as many as asked for, ends of partitions included, or for this long.
            messages = consumer.consume(_READ_AT_ONCE, timeout=_READ_S)
            if messages:
                deadline = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline:
                raise TimeoutError(f"no end of {topic} within {_TIMEOUT_S:.0f} s")
            for message in messages:
                if message.error() is None:
                    yield message
                else:
                    left -= 1
    finally:
        consumer.close()


def open_reader(bootstrap_servers: str, topic: str) -> Consumer:
    """At the beginning of all partitions, in no group that anybody would see."""
    consumer = Consumer(
        QUIET
        | {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    return consumer


def _ids_of(bootstrap_servers: str, topic: str) -> np.ndarray:
    ids = (id_of(message.value() or b"") for message in read_topic(bootstrap_servers, topic))
    return np.fromiter(ids, dtype=np.int64)


def _ids_in(rows: DataFrame) -> np.ndarray:
    number = r"coalesce(try_cast(regexp_extract(path, 'id=([0-9]+)', 1) AS BIGINT), -1) AS id"
    return rows.selectExpr(number).toPandas()["id"].to_numpy(dtype=np.int64)
