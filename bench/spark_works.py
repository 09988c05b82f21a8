"""What is measured in a Spark driver of its own: `python -m bench.spark_works SPEC`, the SPEC as JSON.

Prints its figures as JSON in the last line. Whatever runs first is left out: imports, Python workers and the JVM's
compiler would otherwise be most of what a short run shows.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import confluent_kafka
import psutil

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.pipeline import Pipeline

PENSTOCK, OFFICIAL = "penstock", "kafka"  # as Spark's `format` takes them
ENGINES = {PENSTOCK: "python", OFFICIAL: "jvm"}
CORES = 2
VALUE_BYTES = 100
WARM_UP_PASSES, PASSES = 2, 3
BATCHES = 6  # of a stream, the first of which does not count
STREAM_PASSES = 2
WARM_UP_RECORDS = 8
LONGEST_PHASE_S = 0.2
PATIENCE_S = 120.0

SESSION = {
    "spark.master": f"local[{CORES}]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.pyspark.python": sys.executable,  # for pipelines; PySpark itself looks at the environment alone
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class Spec:
    work: str
    connector: str
    bootstrap: str
    source: str  # a topic
    target: str  # another
    rows: int
    records: int  # sent one by one
    directory: str
    jars: tuple[str, ...] = ()
    steady_seconds: int = 0  # how long a steady load is measured

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        given = json.loads(text)
        return cls(**{**given, "jars": tuple(given["jars"])})


Figures = dict[str, float]


@contextmanager
def session(spec: Spec) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from penstock.pipelines.data_source import register

    builder = SparkSession.builder.appName(f"bench-{spec.work}")
    jars = {"spark.jars": ",".join(spec.jars)} if spec.jars else {}
    for key, value in (SESSION | jars).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def cpu_seconds() -> dict[str, float]:
    """User and system time of Spark's JVM and of its Python workers; the driver's own Python counts as the latter."""
    used = {"JVM": 0.0, "Python": 0.0}
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times, kind = process.cpu_times(), "JVM" if process.name() == "java" else "Python"
        except psutil.NoSuchProcess:
            continue
        used[kind] += times.user + times.system
    return used


def time_passes(key: str, one_pass: Callable[[int], None], count: int) -> Figures:
    """Rows a second, and the CPU seconds of a million rows, which other work on the machine disturbs less."""
    for number in range(WARM_UP_PASSES):
        one_pass(number)
    seconds = []
    before = sum(cpu_seconds().values())
    for number in range(PASSES):
        started = time.perf_counter()
        one_pass(WARM_UP_PASSES + number)
        seconds.append(time.perf_counter() - started)
    used = sum(cpu_seconds().values()) - before
    return {key: count / median(seconds), f"{key}.cpu": used / PASSES / count * 1e6}


def read_in_batch(spark: SparkSession, spec: Spec) -> Figures:
    options = {"kafka.bootstrap.servers": spec.bootstrap, "subscribe": spec.source}

    def read(_: int) -> None:
        frame = spark.read.format(spec.connector).options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    return time_passes("read-batch", read, spec.rows)


def read_as_stream(spark: SparkSession, spec: Spec) -> Figures:
    """Time of the batches alone: starting a query costs both the same."""
    run_stream(spark, spec, "warm-up")
    batches = [batch for number in range(STREAM_PASSES) for batch in run_stream(spark, spec, f"pass-{number}")]
    rows = sum(batch["numInputRows"] for batch in batches)
    return {"read-stream": rows / sum(batch["durationMs"]["triggerExecution"] for batch in batches) * 1000}


def run_stream(spark: SparkSession, spec: Spec, name: str) -> list[dict[str, Any]]:
    """Reads the whole topic; Spark's reports of the batches but the first."""
    options = {
        "kafka.bootstrap.servers": spec.bootstrap,
        "subscribe": spec.source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(spec.rows // BATCHES),
    }
    frame = spark.readStream.format(spec.connector).options(**options).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", f"{spec.directory}/{name}")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [json.loads(progress.json) for progress in query.recentProgress][1:]


def rows_to_write(spark: SparkSession, spec: Spec) -> DataFrame:
    """In memory before anything is timed."""
    numbered = spark.range(0, spec.rows, 1, 2 * CORES)
    rows = numbered.selectExpr(
        "cast(cast(id as string) as binary) as key", f"cast(rpad(id, {VALUE_BYTES}, 'x') as binary) as value"
    ).persist()
    rows.count()
    return rows


def write(spark: SparkSession, spec: Spec) -> Figures:
    rows = rows_to_write(spark, spec)
    options = {"kafka.bootstrap.servers": spec.bootstrap, "topic": spec.target}

    def save(_: int) -> None:
        rows.write.format(spec.connector).mode("append").options(**options).save()

    return time_passes("write", save, spec.rows)


def write_once(spark: SparkSession, spec: Spec) -> Figures:
    rows = rows_to_write(spark, spec)
    options = {"kafka.bootstrap.servers": spec.bootstrap, "topic": spec.target, "guarantee": "exactly-once"}
    identity = {"queryId": f"bench-{time.time_ns()}", "sinkName": "bench"}

    def save(number: int) -> None:
        named = identity | {"batchId": str(number)}
        rows.write.format(spec.connector).mode("append").options(**options, **named).save()

    return time_passes("write-once", save, spec.rows)


def stream_latency(spark: SparkSession, spec: Spec, guarantee: str = "at-least-once") -> Figures:
    """A query from topic to topic, as fast as it can trigger; its connector at both ends."""
    options = {"kafka.bootstrap.servers": spec.bootstrap}
    frame = spark.readStream.format(spec.connector).options(
        **options, subscribe=spec.source, startingOffsets="earliest"
    )
    promised = {"guarantee": guarantee} if spec.connector == PENSTOCK else {}
    writer = frame.load().select("value").writeStream.format(spec.connector).options(**options, **promised)
    query = writer.option("topic", spec.target).option("checkpointLocation", f"{spec.directory}/checkpoint").start()
    try:
        key = "latency-once" if guarantee == "exactly-once" else "latency"
        return {key: milliseconds_end_to_end(spec)}
    finally:
        query.stop()


def stream_latency_once(spark: SparkSession, spec: Spec) -> Figures:
    return stream_latency(spark, spec, "exactly-once")


def pipeline_latency(spark: SparkSession, spec: Spec) -> Figures:
    """The same as a pipeline, whose engine is either connector."""
    from penstock.pipelines.runtime.runner import Run

    run = Run(spark, copying(spec))
    run.start()
    try:
        return {"latency-pipeline": milliseconds_end_to_end(spec)}
    finally:
        run.stop()
        run.wait()


def copying(spec: Spec) -> Pipeline:
    from penstock.pipelines import Pipeline, Settings, Topic
    from penstock.pipelines.sinks.topic import TopicSink

    settings = Settings(
        bootstrap_servers=spec.bootstrap,
        checkpoint=f"{spec.directory}/checkpoint",
        trigger="0 seconds",
        engine=ENGINES[spec.connector],  # type: ignore[arg-type]  # the table has no other
    )
    sink = TopicSink(spec.target, guarantee="at-least-once")
    return Pipeline("copying", (Topic(spec.source),), (sink,), settings=settings)


def milliseconds_end_to_end(spec: Spec) -> float:
    """From before a record is sent until it is back; the median. Records come at any moment of a trigger's round."""
    client = {"bootstrap.servers": spec.bootstrap, "log_level": 0}
    producer = confluent_kafka.Producer({**client, "linger.ms": 0})
    consumer = confluent_kafka.Consumer({**client, "group.id": "bench", "enable.auto.commit": False})
    phases = random.Random(1)
    milliseconds = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(spec.target, 0, 0)])
        for number in range(WARM_UP_RECORDS + spec.records):
            time.sleep(phases.random() * LONGEST_PHASE_S)
            started = time.perf_counter()
            producer.produce(spec.source, str(number).encode(), partition=0)
            producer.flush(PATIENCE_S)
            await_value(consumer, str(number).encode())
            milliseconds.append((time.perf_counter() - started) * 1000)
    finally:
        consumer.close()
    return median(milliseconds[WARM_UP_RECORDS:])


def await_value(consumer: confluent_kafka.Consumer, value: bytes) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None and message.value() == value:
            return
    raise TimeoutError(f"the record {value.decode()} did not come back within {PATIENCE_S:.0f} s")


WORKS: dict[str, Callable[[SparkSession, Spec], Figures]] = {
    "read-batch": read_in_batch,
    "read-stream": read_as_stream,
    "write": write,
    "write-once": write_once,
    "latency": stream_latency,
    "latency-once": stream_latency_once,
    "latency-pipeline": pipeline_latency,
}
# What only ours can do.
OWN_WORKS = frozenset({"write-once", "latency-once"})


def main(arguments: list[str]) -> int:
    spec = Spec.from_json(arguments[0])
    with session(spec) as spark:
        figures: dict[str, Any] = WORKS[spec.work](spark, spec)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
