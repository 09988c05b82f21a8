"""One run of Nexmark and of the latency of streams. Every figure comes from a process of its own on a new broker."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from apache_kafka.jars import PeerUnavailableError
from bench.contenders import cpu_seconds
from bench.errors import BenchError
from bench.gathering import Gathering, alternate
from bench.rows import Row
from bench.streams import latency
from bench.streams.applications import QUERIES, REAL_TIME
from bench.streams.contenders import CONTENDERS, CORES, JAVA, OURS, Contender, Running, Spec
from bench.streams.events import AUCTION, BID, PERSON, SIDE, events, side_rows
from bench.streams.watching import Watch, records_a_second
from penstock.testing.processes import BrokerProcess
from spark_connector.jars import fetch_connector_jars

STREAMS_NAMES = tuple(f"streams-{name}" for name in (*QUERIES, "latency", "realtime"))
BEGIN, END = "<!-- streams: begin -->", "<!-- streams: end -->"
PARTITIONS = 4
BATCHES = 6
PATIENCE_S = 900.0
RATE = 5000
# In real time: one partition, one task that reads and one with state. A checkpoint comes once a minute, and is waited
# for: the time of measuring is so much longer than elsewhere that there are two.
REAL_TIME_RATE = 500
REAL_TIME_LONGER = 3
# The topics whose records count as a query's input.
READ = {
    "q3": (PERSON, AUCTION),
    "q4": (AUCTION, BID),
    "q8": (PERSON, AUCTION),
}
COUNTED = ("q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q11", "q12", "q13", "count")
STREAMS_ROWS = (
    *(
        Row(
            f"{name}-rate",
            f"{name}: events a second on {CORES} cores",
            "1,000/s",
            decimals=1,
            ratio_at_least=1 if name == "count" else None,
        )
        for name in COUNTED
    ),
    *(Row(f"{name}-cpu", f"{name}: events of a second of CPU", "1,000", decimals=1) for name in COUNTED),
    Row("latency-p50", f"count per key, {RATE:,} events a second: p50", "ms"),
    Row("latency-p99", f"count per key, {RATE:,} events a second: p99", "ms", value_at_most=1500),
    *(
        Row(
            f"realtime-{name}-{part}",
            f"{text}, in real time, {REAL_TIME_RATE} events a second: {part}",
            "ms",
            value_at_most=50 if part == "p99" else None,
        )
        for name, text in (("count", "count per key"), ("filter", "filter"))
        for part in ("p50", "p99")
    ),
)


@dataclass(frozen=True, slots=True)
class StreamsScale:
    events: int
    warm_s: float
    seconds: float


FULL = StreamsScale(1_000_000, 20, 40)
QUICK = StreamsScale(50_000, 3, 5)


class StreamsRun:
    """Figures gather in `result`."""

    def __init__(self, scale: StreamsScale, rounds: int) -> None:
        self.scale = scale
        self.rounds = rounds
        names = tuple(contender.name for contender in CONTENDERS)
        self.result = Gathering(names, STREAMS_ROWS, "Streams", (BEGIN, END), JAVA.name)

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        for number in range(self.rounds):
            for name in names:
                query = name.removeprefix("streams-")
                if query == "realtime":
                    self._measure_real_time(number)
                    continue
                for contender in alternate(CONTENDERS, number):
                    self._measure(query, contender, number)

    def _measure(self, query: str, contender: Contender, number: int) -> None:
        asked = "count" if query == "latency" else query
        if asked not in contender.queries:
            return
        try:
            figures = self._latency(contender) if query == "latency" else self._rate(query, contender)
        except PeerUnavailableError as error:
            print(f"bench: no comparison with {contender.name}: {error}", file=sys.stderr)
            return
        self.result.keep(contender.name, {f"{query}-{key}": value for key, value in figures.items()}, number)

    def _rate(self, query: str, contender: Contender) -> dict[str, float]:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as home, _broker(home, contender) as broker:
            counts = fill(broker.bootstrap_servers, self.scale.events)
            read = READ.get(query, (BID,))
            total = sum(counts[topic] for topic in read)
            per_batch = total // BATCHES if contender is OURS else 0
            spec = Spec(query, broker.bootstrap_servers, home, per_batch)
            watch = Watch(broker.bootstrap_servers, contender.group_prefix + query, frozenset(read))
            with Running(contender, spec) as running:
                try:
                    before = cpu_seconds(running.process.pid)
                    rate = records_a_second(watch, total, lambda: running.process.poll() is None, PATIENCE_S)
                    used = cpu_seconds(running.process.pid) - before
                except BenchError as error:
                    raise BenchError(f"{contender.name}, {query}: {error}\n{running.said()}") from error
                finally:
                    watch.close()
        return {"rate": rate / 1000, "cpu": total / used / 1000}

    def _measure_real_time(self, number: int) -> None:
        """Ours alone: it is Spark's mode, and Java's are measured by `latency`."""
        try:
            fetch_connector_jars()
        except PeerUnavailableError as error:
            print(f"bench: not in real time: {error}", file=sys.stderr)
            return
        for query in REAL_TIME:
            found = self._latency(OURS, query, in_real_time=True)
            self.result.keep(OURS.name, {f"realtime-{query}-{key}": value for key, value in found.items()}, number)

    def _latency(self, contender: Contender, query: str = "count", *, in_real_time: bool = False) -> dict[str, float]:
        partitions, rate, seconds = PARTITIONS, RATE, self.scale.seconds
        if in_real_time:
            partitions, rate, seconds = 1, REAL_TIME_RATE, seconds * REAL_TIME_LONGER
        directory = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        with directory as home, _broker(home, contender, partitions) as broker:
            spec = Spec(query, broker.bootstrap_servers, home, is_in_real_time=in_real_time)
            with Running(contender, spec) as running:
                try:
                    place = broker.bootstrap_servers, contender.output
                    found = latency.measure(*place, rate, self.scale.warm_s, seconds)
                except BenchError as error:
                    raise BenchError(f"{contender.name}: {error}\n{running.said()}") from error
        return {key: found[key] for key in ("p50", "p99")}


def _broker(home: str, contender: Contender, partitions: int = PARTITIONS) -> BrokerProcess:
    return _Filled(Path(home) / "data", contender.output, partitions)


class _Filled(BrokerProcess):
    """A broker with the topics of the auction."""

    def __init__(self, directory: Path, output: str, partitions: int) -> None:
        super().__init__(directory)
        self._output = output
        self._partitions = partitions

    def __enter__(self) -> Self:
        super().__enter__()
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        new = [NewTopic(topic, self._partitions, 1) for topic in (PERSON, AUCTION, BID, SIDE, self._output)]
        for made in admin.create_topics(new).values():
            made.result(30)
        return self


def fill(bootstrap: str, count: int) -> dict[str, int]:
    """By topic how many there are."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50})
    counts: dict[str, int] = {PERSON: 0, AUCTION: 0, BID: 0, SIDE: 0}
    for each in (event for source in (side_rows(), events(count)) for event in source):
        counts[each.topic] += 1
        while True:
            try:
                producer.produce(each.topic, each.value, each.key.encode(), timestamp=each.timestamp_ms)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(60):
        raise BenchError(f"{left} records of the preload were not acknowledged")
    return counts
