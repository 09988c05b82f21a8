"""What whoever runs a pipeline is told when something around it fails, and that it goes on afterwards, exactly once."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipelines import Branch, Pipeline, Settings, Sink, Topic
from penstock.pipelines.errors import BatchError, PipelineError
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.sinks.hive import HiveTable
from penstock.pipelines.sinks.sql import SqlTable
from penstock.pipelines.sinks.sql_writing.database import engine_for
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.steps import parse_json
from penstock.testing.processes import BrokerProcess
from tests.pipelines.committed import committed_values
from tests.pipelines.topics import Topics

# On a busy machine; what is waited for comes within seconds on an idle one.
TIMEOUT_S = 120.0
pytestmark = pytest.mark.timeout(600)
PASSWORD = "not-for-logs"
AWAY_S = 3.0  # longer than every pause between two tries


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


class Bench:
    """A pipeline that copies numbers from a topic of one partition, and its runs."""

    def __init__(self, spark: SparkSession, topics: Topics, directory: Path, *sinks: Sink) -> None:
        self.spark, self.topics = spark, topics
        self.topic = topics.create(1)
        self.output = f"{self.topic}-out"
        self.pipeline = Pipeline(
            name="faulty",
            sources=(Topic(self.topic),),
            sinks=sinks or (TopicSink(self.output, create=TopicSettings(1)),),
            settings=Settings(
                bootstrap_servers=topics.bootstrap,
                checkpoint=str(directory / "checkpoint"),
                trigger="50 milliseconds",
                parallelism=1,
            ),
        )

    def produce(self, *numbers: int) -> None:
        self.topics.produce(self.topic, numbers, 1)

    def run_once(self) -> None:
        run = Run(self.spark, self.pipeline, once=True)
        run.start()
        run.wait(for_s=TIMEOUT_S)

    def fail_once(self) -> str:
        with pytest.raises(BatchError) as raised:
            self.run_once()
        return raised.value.message

    def written(self) -> list[int]:
        return sorted(map(int, committed_values(self.topics.bootstrap, self.output)))


def test_the_partition_and_its_offset_are_named_when_the_topic_is_deleted_under_a_running_query(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    bench = Bench(spark, topics, tmp_path)
    bench.produce(0, 1, 2)
    run = Run(spark, bench.pipeline)
    run.start()
    deleted = False

    def delete_when_read(current: Run) -> None:
        nonlocal deleted
        if not deleted and current.progress()[0].rows >= 3:
            topics.delete(bench.topic)
            deleted = True

    with pytest.raises(BatchError) as raised:
        run.wait(delete_when_read, for_s=TIMEOUT_S)
    said = raised.value.message
    assert said.startswith("faulty/main: ")
    assert f"topic {bench.topic} partition 0 is gone; it was read up to offset 3" in said
    assert bench.written() == [0, 1, 2]
    # The same name, new records: what was read of the old ones is nothing to go on from.
    topics.create(1, bench.topic)
    bench.produce(7)
    assert f"topic {bench.topic} partition 0 ends at offset 1, before offset 3" in bench.fail_once()
    bench.pipeline = replace(bench.pipeline, sources=(Topic(bench.topic, options={"failOnDataLoss": "false"}),))
    bench.run_once()
    assert bench.written() == [0, 1, 2, 7]


def test_what_is_missing_is_named_and_passed_over_only_on_request_when_retention_overtakes_the_reader(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    bench = Bench(spark, topics, tmp_path)
    bench.produce(*range(5))
    bench.run_once()
    bench.produce(*range(5, 15))
    topics.delete_records(bench.topic, 0, 8)
    said = bench.fail_once()
    assert f"topic {bench.topic} partition 0: offsets 5 to 7 are no longer there (3 offsets)" in said
    assert "failOnDataLoss" in said
    assert "batch 1 failed" in said
    assert f"It read topic {bench.topic}, partition 0, offsets 5 to 14" in said
    assert bench.written() == list(range(5))
    bench.pipeline = replace(bench.pipeline, sources=(Topic(bench.topic, options={"failOnDataLoss": "false"}),))
    bench.run_once()
    assert bench.written() == [*range(5), *range(8, 15)]


def test_columns_and_records_are_named_when_the_schema_no_longer_fits(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    table = f"faulty_{uuid.uuid4().hex[:8]}"
    bench = Bench(spark, topics, tmp_path, HiveTable(table))
    dead = TopicSink(f"{bench.topic}-dead", create=TopicSettings(1))
    producer = topics.producer()

    def produce(*values: str) -> None:
        for value in values:
            producer.produce(bench.topic, value.encode())
        assert producer.flush(TIMEOUT_S) == 0

    def parse_as(schema: str, dead_letters: Sink | None = None) -> None:
        bench.pipeline = replace(bench.pipeline, steps=(parse_json(schema),), dead_letters=dead_letters)

    parse_as("n int")
    produce('{"n": 1}')
    bench.run_once()
    # The producer now writes text where numbers were, and nobody said what to do with what does not parse.
    produce('{"n": "two"}', '{"n": 3}')
    said = bench.fail_once()
    assert "a record was refused: not the expected JSON" in said
    assert f"(topic {bench.topic}, partition 0, offset 1)" in said
    # A place for such records, and a new column that the table lacks.
    parse_as("n int, place string", dead)
    said = bench.fail_once()
    assert f"failed at the sink {table} (Hive table {table}" in said
    assert f"the rows no longer fit the table {table}: place is not in the table" in said
    assert f"It read topic {bench.topic}, partition 0, offsets 1 to 2" in said
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (place string)")
    produce('{"n": 4, "place": "Ulm"}')
    bench.run_once()
    found = sorted((row.n, row.place) for row in spark.table(table).collect())
    assert found == [(1, None), (3, None), (4, "Ulm")]
    assert committed_values(topics.bootstrap, dead.topic) == ['{"n": "two"}']
    spark.sql(f"DROP TABLE {table}")


def test_the_sink_is_named_without_its_password_when_its_database_is_down(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    unreachable = SqlTable(f"postgresql+psycopg://etl:{PASSWORD}@127.0.0.1:1/shop", "orders", wait_s=0.2)
    with pytest.raises(PipelineError, match=r"the sink orders cannot be used: postgresql.* could not be") as refused:
        Bench(spark, topics, tmp_path / "never", unreachable).run_once()
    assert PASSWORD not in f"{refused.value} {refused.value.__cause__}"

    home, away = tmp_path / "database", tmp_path / "away"
    home.mkdir()
    url = f"sqlite:///{home}/rows.db"
    bench = Bench(spark, topics, tmp_path, SqlTable(url, "numbers", wait_s=0.5))
    bench.pipeline = replace(bench.pipeline, steps=(parse_json("n int"),))
    producer = topics.producer()
    producer.produce(bench.topic, b'{"n": 1}')
    producer.flush(TIMEOUT_S)
    bench.run_once()

    def move(source: Path, target: Path) -> None:
        engine_for(url).dispose()  # an open file would go with its directory
        source.rename(target)

    run = Run(spark, bench.pipeline)
    run.start()
    move(home, away)
    producer.produce(bench.topic, b'{"n": 2}')
    producer.flush(TIMEOUT_S)
    with pytest.raises(BatchError) as raised:
        run.wait(for_s=TIMEOUT_S)
    said = raised.value.message
    assert "failed at the sink numbers (SQL table numbers in sqlite" in said
    assert "could not be written to for" in said
    assert "unable to open database file" in said
    assert f"It read topic {bench.topic}, partition 0, offsets 1 to 1" in said
    # Patience enough, and the database comes back while it lasts.
    bench.pipeline = replace(bench.pipeline, sinks=(SqlTable(url, "numbers", wait_s=TIMEOUT_S),))
    restore = threading.Timer(1.0, move, (away, home))
    restore.start()
    bench.run_once()
    restore.join()
    with engine_for(url).connect() as connection:
        assert connection.exec_driver_sql("SELECT n FROM numbers ORDER BY n").all() == [(1,), (2,)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon full; only root can have one."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(mount_point)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own needs root")
    yield mount_point
    subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


def fill(directory: Path) -> Path:
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_nothing_is_lost_or_doubled_when_the_disk_of_the_checkpoint_was_full(
    spark: SparkSession, topics: Topics, small_disk: Path
) -> None:
    bench = Bench(spark, topics, small_disk)
    bench.produce(*range(5))
    bench.run_once()
    bench.produce(*range(5, 9))
    ballast = fill(small_disk)
    said = bench.fail_once()
    assert "No space left on device" in said
    assert "faulty/main" in said
    ballast.unlink()
    bench.run_once()
    assert bench.written() == list(range(9))


def test_rows_are_there_once_when_the_end_of_a_batch_cannot_be_written_down(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """The moment between a sink that has written and a checkpoint that does not know; any user can have it."""
    bench = Bench(spark, topics, tmp_path)
    bench.produce(*range(5))
    bench.run_once()
    bench.produce(*range(5, 9))
    commits = tmp_path / "checkpoint" / "main" / "commits"
    kept = commits.rename(tmp_path / "commits")
    commits.write_text("a file where a directory has to be")
    said = bench.fail_once()
    assert str(commits) in said
    commits.unlink()
    kept.rename(commits)
    bench.run_once()
    assert bench.written() == list(range(9))


def test_the_query_waits_when_the_broker_is_away_for_a_while(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        bench = Bench(spark, Topics(broker.bootstrap_servers), tmp_path)
        bench.produce(0, 1)
        run = Run(spark, bench.pipeline)
        run.start()
        actions: list[Callable[[], object]] = [
            broker.kill,
            lambda: time.sleep(AWAY_S),
            broker.start,
            lambda: bench.produce(2, 3),
        ]

        def kill_once(current: Run) -> None:
            if actions and current.progress()[0].rows >= 2:
                for act in actions:
                    act()
                actions.clear()
            if current.progress()[0].rows >= 4:
                current.stop()

        run.wait(kill_once, for_s=TIMEOUT_S)
        assert bench.written() == [0, 1, 2, 3]


def test_a_stop_does_not_wait_for_the_broker_when_the_driver_was_writing_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    armed, cut_off = threading.Event(), threading.Event()

    def lose_the_broker(rows: DataFrame) -> DataFrame:
        """Called when the rows of a batch are in Spark's memory and nothing of it is written."""
        if armed.is_set() and not cut_off.is_set():
            broker.kill()
            cut_off.set()
        return rows

    with BrokerProcess(tmp_path / "broker", config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        bench = Bench(spark, Topics(broker.bootstrap_servers), tmp_path)
        output, create = TopicSink(bench.output, create=TopicSettings(1)), TopicSettings(1)
        branch = Branch("other", (TopicSink(f"{bench.output}-2", create=create),), steps=(lose_the_broker,))
        settings = replace(bench.pipeline.settings, publish_runs=False)
        bench.pipeline = replace(bench.pipeline, sinks=(branch, output), settings=settings)
        bench.produce(0, 1)
        run = Run(spark, bench.pipeline)
        run.start()

        def stop_in_the_middle(current: Run) -> None:
            if current.progress()[0].rows >= 2 and not armed.is_set():
                armed.set()
                bench.produce(2, 3)
            if cut_off.is_set():
                current.queries[0].query.stop()  # as the run does when a batch has had its time
                broker.start()

        with pytest.raises(BatchError, match="ended and Spark does not say why"):  # not as a batch that failed
            run.wait(stop_in_the_middle, for_s=TIMEOUT_S)
        bench.run_once()
        assert bench.written() == [0, 1, 2, 3]
        assert sorted(map(int, committed_values(broker.bootstrap_servers, f"{bench.output}-2"))) == [0, 1, 2, 3]
