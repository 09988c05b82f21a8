"""Running pipelines: what reaches the sinks, what is remembered, and what is said when something fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipelines import Batch, Branch, Pipeline, Settings, Sink, Topic
from penstock.pipelines.errors import BatchError, PipelineError
from penstock.pipelines.runtime.reset import forget_progress
from penstock.pipelines.runtime.runner import Run, groups_of
from penstock.pipelines.sinks.topic import ALL_AS_JSON, TopicSettings, TopicSink
from penstock.pipelines.spark_settings import ADAPTIVE
from penstock.pipelines.steps import parse_json
from penstock.runs.records import State
from tests.clients.cli_runner import Cli
from tests.clients.seen_runs import run_of, wait_until
from tests.pipelines.committed import make_topic, produce, read_committed, unique


@dataclass
class Collected:
    """A sink that keeps what it is given, once per batch; `refuse` makes it fail."""

    name: str = "collected"
    refuse: Callable[[Batch], bool] = lambda _: False
    batches: dict[int, list[tuple[object, ...]]] = field(default_factory=dict)
    calls: list[Batch] = field(default_factory=list)
    written: threading.Event = field(default_factory=threading.Event)
    session_settings: Mapping[str, str] = field(default_factory=dict)
    opened: int = 0
    closed: int = 0

    def describe(self, settings: Settings) -> str:
        return "memory"

    def open(self, spark: SparkSession, settings: Settings) -> Collected:
        self.opened += 1
        return self

    def close(self) -> None:
        self.closed += 1

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.calls.append(batch)
        found = sorted(tuple(row) for row in rows.collect())
        if self.refuse(batch):
            raise OSError("the disk is full")
        self.batches[batch.id] = found
        self.written.set()

    @property
    def rows(self) -> list[tuple[object, ...]]:
        return sorted(row for rows in self.batches.values() for row in rows)


@dataclass
class Settled(Collected):
    """Says when it is asked whether others see what it has."""

    name: str = "settled"
    settle: Callable[[Callable[[float], bool]], None] = lambda _: None


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    return {(place.topic, place.partition): place.offset for place in answer.topic_partitions or []}


# Less than a batch at work is given when a run ends.
PATIENCE_S = 20.0


@dataclass
class Bench:
    """What the tests have in common: a topic with numbers as JSON, and pipelines that read it."""

    spark: SparkSession
    bootstrap: str
    directory: Path
    topic: str

    def pipeline(self, *sinks: Sink | Branch, name: str = "", dead_letters: Sink | None = None) -> Pipeline:
        return Pipeline(
            name=name or unique("numbers"),
            sources=(Topic(self.topic),),
            steps=(parse_json("n bigint"),),
            sinks=sinks,
            dead_letters=dead_letters,
            settings=Settings(
                bootstrap_servers=self.bootstrap, checkpoint=str(self.directory / "checkpoint"), trigger="0 seconds"
            ),
        )

    def run_once(self, pipeline: Pipeline) -> Run:
        run = Run(self.spark, pipeline, once=True)
        run.start()
        run.wait()
        return run


@pytest.fixture
def bench(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Bench:
    topic = make_topic(bootstrap, "numbers")
    produce(bootstrap, topic, '{"n": 1}', '{"n": 2}', '{"n": 3}')
    return Bench(spark, bootstrap, tmp_path, topic)


def doubled(rows: DataFrame) -> DataFrame:
    return rows.select((F.col("n") * 2).alias("n"))


def doubled_total(rows: DataFrame) -> DataFrame:
    return rows.select((F.col("total") * 2).alias("n"))


def total(rows: DataFrame) -> DataFrame:
    return rows.groupBy().agg(F.sum("n").alias("total"))


def fail_on_two(rows: DataFrame) -> DataFrame:
    # As long as a real traceback: Spark looks for things in the text of an error, and must survive that.
    complaint = F.raise_error(F.lit("two is not welcome " + "x" * 20_000)).cast("boolean")
    return rows.where(F.when(F.col("n") == 2, complaint).otherwise(F.lit(True)))


def test_every_sink_gets_its_rows_and_progress_is_kept_when_a_pipeline_runs_once(bench: Bench) -> None:
    produce(bench.bootstrap, bench.topic, "not JSON")
    plain, branched, summed = Collected("plain"), Collected("branched"), Collected("summed")
    dead = unique("dead")
    pipeline = bench.pipeline(
        plain,
        Branch("doubled", sinks=(branched,), steps=(doubled,)),
        Branch("sum", sinks=(summed,), steps=(total,), stateful=True, mode="complete"),
        dead_letters=TopicSink(dead, create=TopicSettings()),
    )
    run = bench.run_once(pipeline)
    assert (plain.rows, branched.rows) == ([(1,), (2,), (3,)], [(2,), (4,), (6,)])
    assert summed.batches[max(summed.batches)] == [(6,)]
    (letter,) = read_committed(bench.bootstrap, dead)
    headers = dict(letter.headers() or [])
    assert letter.value() == b"not JSON"
    assert headers["penstock.error"] == b"not the expected JSON"
    assert headers["penstock.source.topic"] == bench.topic.encode()
    assert headers["penstock.source.offset"] == b"3"
    main, own = run.progress()
    assert (main.rows, main.lag) == (4, 0)
    assert main.written == {"plain": 3, "branched": 3, dead: 1}
    assert [(sink.opened, sink.closed) for sink in (plain, branched, summed)] == [(1, 1)] * 3
    assert own.query == f"{pipeline.name}/sum"
    for group in (f"penstock-{pipeline.name}", f"penstock-{pipeline.name}-sum"):
        assert committed(bench.bootstrap, group) == {(bench.topic, 0): 4}
    # The next run takes up where this one ended, until it is told to forget.
    produce(bench.bootstrap, bench.topic, '{"n": 4}')
    bench.run_once(pipeline)
    assert plain.rows == [(1,), (2,), (3,), (4,)]
    assert len(list(forget_progress(pipeline))) == 1 + len(groups_of(pipeline))
    assert not (bench.directory / "checkpoint").exists()
    assert committed(bench.bootstrap, f"penstock-{pipeline.name}") == {}


def test_a_chain_of_branches_comes_to_its_end_when_each_reads_what_the_one_before_wrote(bench: Bench) -> None:
    between, kept = unique("between"), Collected()
    settling = Settled(settle=lambda _: settled.append(list(kept.rows)))
    settled: list[list[tuple[object, ...]]] = []  # what was kept by then
    make_sums = Branch(
        "sums",
        sinks=(
            Branch("as-json", (TopicSink(between, value=ALL_AS_JSON, create=TopicSettings()),), (doubled_total,)),
            settling,
        ),
        steps=(total,),
        stateful=True,
        mode="update",
        sources=(Topic(bench.topic),),
        combine=parse_json("n bigint"),
    )
    read_sums = Branch(
        "read", (kept,), (doubled,), sources=(Topic(between),), combine=parse_json("n bigint"), after=("sums",)
    )
    pipeline = replace(bench.pipeline(make_sums, read_sums), sources=(), steps=())
    run = bench.run_once(pipeline)
    assert kept.rows == [(24,)]
    assert settled == [[]]
    assert {query.query: query.rows for query in run.progress()} == {
        f"{pipeline.name}/sums": 3,
        f"{pipeline.name}/read": 1,
    }
    assert committed(bench.bootstrap, f"penstock-{pipeline.name}-sums") == {(bench.topic, 0): 3}
    # Without an end of their own both run at once; each knows only the topics that it reads.
    run = Run(bench.spark, pipeline)
    run.start()
    produce(bench.bootstrap, bench.topic, '{"n": 4}')
    run.wait(every=lambda current: current.stop() if len(kept.rows) == 2 else None, for_s=PATIENCE_S)
    assert kept.rows == [(24,), (40,)]
    produce(bench.bootstrap, between, '{"n": "x"}')
    with pytest.raises(BatchError, match=f"{pipeline.name}/read: .* topic {between}, partition 0"):
        bench.run_once(pipeline)
    assert len(list(forget_progress(pipeline))) == 3


def test_the_step_and_the_offsets_are_named_when_a_step_fails_on_its_rows(bench: Bench) -> None:
    sink = Collected()
    failing = replace(bench.pipeline(sink), steps=(parse_json("n bigint"), fail_on_two))
    with pytest.raises(BatchError) as raised:
        bench.run_once(failing)
    message = raised.value.message
    assert "batch 0 failed at the step fail_on_two" in message
    assert "two is not welcome" in message
    assert f"topic {bench.topic}, partition 0, offsets 0 to 2" in message
    # The same batch, with the same rows, comes again when the step is repaired; more has come meanwhile.
    produce(bench.bootstrap, bench.topic, '{"n": 4}')
    bench.run_once(replace(failing, steps=(parse_json("n bigint"),)))
    assert sink.batches == {0: [(1,), (2,), (3,)], 1: [(4,)]}


def test_the_branch_step_is_named_when_it_is_the_one_that_fails(bench: Bench) -> None:
    branch = Branch("picky", sinks=(Collected("picky-sink"),), steps=(doubled, fail_on_two), stateful=True)
    produce(bench.bootstrap, bench.topic, '{"n": 1}')
    with pytest.raises(BatchError, match="/picky: batch 0 failed at the step fail_on_two"):
        bench.run_once(bench.pipeline(Collected(), branch))


def test_the_sink_is_named_and_the_batch_comes_again_when_a_sink_fails(bench: Bench) -> None:
    failures = iter((True, False))
    sink = Collected("archive", refuse=lambda _: next(failures))
    pipeline = bench.pipeline(sink)
    with pytest.raises(BatchError, match=r"failed at the sink archive \(memory\): .*the disk is full"):
        bench.run_once(pipeline)
    assert (sink.opened, sink.closed) == (1, 1)
    bench.run_once(pipeline)
    assert sink.rows == [(1,), (2,), (3,)]
    assert sink.calls[0] == sink.calls[1]


def test_the_sink_is_named_and_no_other_is_at_work_when_one_of_several_fails(bench: Bench) -> None:
    has_failed = threading.Event()

    def fail(_: Batch) -> bool:
        has_failed.set()
        return True

    def wait_for_failure(_: Batch) -> bool:
        assert has_failed.wait(30), "small batches are written side by side"
        time.sleep(0.5)
        return False

    patient = Collected("patient", refuse=wait_for_failure)
    with pytest.raises(BatchError, match=r"failed at the sink archive \(memory\): .*the disk is full"):
        bench.run_once(bench.pipeline(patient, Collected("archive", refuse=fail)))
    assert patient.batches == {0: [(1,), (2,), (3,)]}
    assert patient.calls[0].is_small


@dataclass
class Looking(Collected):
    """A sink that looks at a setting of its session."""

    seen: list[str | None] = field(default_factory=list)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.seen.append(rows.sparkSession.conf.get(ADAPTIVE))
        Collected.write(self, rows, batch)


def test_adaptive_execution_is_off_when_sinks_write_side_by_side_in_a_session_that_has_it_on(bench: Bench) -> None:
    assert bench.spark.conf.get(ADAPTIVE) == "true"
    sinks = Looking("one"), Looking("other")
    bench.run_once(bench.pipeline(*sinks))
    assert [sink.seen for sink in sinks] == [["false"], ["false"]]
    assert bench.spark.conf.get(ADAPTIVE) == "true"


def test_no_step_is_blamed_when_the_rows_of_a_failed_batch_are_gone(bench: Bench) -> None:
    def forget_rows(_: Batch) -> bool:
        admin = AdminClient({"bootstrap.servers": bench.bootstrap})
        admin.delete_topics([bench.topic])[bench.topic].result(30)
        return True

    sink = Collected("archive", refuse=forget_rows)
    expected = r"failed at reading its sources or the sink archive \(memory\): .*the disk is full"
    with pytest.raises(BatchError, match=expected):
        bench.run_once(bench.pipeline(sink))


def test_the_record_is_named_when_there_is_no_place_for_dead_letters(bench: Bench) -> None:
    produce(bench.bootstrap, bench.topic, "broken")
    refused = rf"a record was refused: not the expected JSON \(topic {bench.topic}, partition 0, offset 3\)"
    with pytest.raises(BatchError, match=refused):
        bench.run_once(bench.pipeline(Collected()))


def test_nothing_is_left_running_when_a_step_does_not_fit(bench: Bench) -> None:
    wrong = Branch("wrong", sinks=(Collected("other"),), steps=(lambda rows: rows.select("m"),), stateful=True)
    sink = Collected()
    with pytest.raises(PipelineError, match="does not fit its rows") as raised:
        Run(bench.spark, bench.pipeline(sink, wrong)).start()
    assert (sink.opened, sink.closed) == (1, 1)
    assert raised.value.hint == "The rows it is given have: source, n."
    assert bench.spark.streams.active == []


def test_the_other_queries_are_stopped_when_one_fails(bench: Bench) -> None:
    sink = Collected("good")
    bad = Branch("bad", sinks=(Collected("never"),), steps=(fail_on_two,), stateful=True)
    run = Run(bench.spark, bench.pipeline(sink, bad))
    run.start()
    with pytest.raises(BatchError, match="/bad: batch 0"):
        run.wait(for_s=100)
    assert bench.spark.streams.active == []


def test_the_batch_at_work_is_finished_when_the_run_is_stopped(bench: Bench) -> None:
    sink = Collected()
    pipeline = bench.pipeline(sink)
    run = Run(bench.spark, pipeline)
    run.start()
    seen = run.progress()

    def stop_after_a_batch(current: Run) -> None:
        if sink.written.is_set():
            current.stop()

    run.wait(every=stop_after_a_batch, for_s=100)
    assert sink.rows == [(1,), (2,), (3,)]
    assert len(sink.calls) == len(sink.batches)
    assert committed(bench.bootstrap, f"penstock-{pipeline.name}") == {(bench.topic, 0): 3}
    assert seen[0].batch_id == -1


def test_no_further_batch_is_begun_or_waited_for_when_the_run_is_stopped(bench: Bench) -> None:
    sink = Collected()
    run = Run(bench.spark, bench.pipeline(sink))
    run.start()
    stopped_at: list[float] = []

    def stop_before_the_next_batch(current: Run) -> None:
        if current.progress()[0].batch_id >= 0:
            current.stop()
            stopped_at.append(time.monotonic())
            produce(bench.bootstrap, bench.topic, '{"n": 4}')
            time.sleep(3)  # the batch that would follow begins

    run.wait(every=stop_before_the_next_batch, for_s=100)
    assert sink.rows == [(1,), (2,), (3,)]
    assert time.monotonic() - stopped_at[0] < PATIENCE_S
    bench.run_once(run.pipeline)
    assert sink.rows == [(1,), (2,), (3,), (4,)]


def test_no_batch_is_begun_and_each_row_comes_once_when_a_run_is_paused_resumed_restarted_and_stopped(
    bench: Bench,
) -> None:
    """By commands from the topic, as any host may send them."""
    cli, sink = Cli(bench.bootstrap), Collected()
    run = Run(bench.spark, bench.pipeline(sink))
    name = run.pipeline.name

    def produce_while_paused(row: int) -> None:
        assert "paused" in cli.run("pipeline", "pause", name).text
        calls = len(sink.calls)
        produce(bench.bootstrap, bench.topic, json.dumps({"n": row}))
        # Spark plans the batch, which then waits at its beginning.
        wait_until(lambda: run.queries[0].writing.is_held)
        time.sleep(0.5)
        assert len(sink.calls) == calls
        assert run.state is State.PAUSED
        assert run_of(cli, name)["state"] == "paused"

    def operate() -> None:
        try:
            wait_until(sink.written.is_set)
            produce_while_paused(4)
            cli.run("pipeline", "resume", run.id)
            wait_until(lambda: (4,) in sink.rows)
            produce_while_paused(5)
            assert "restarted" in cli.run("pipeline", "restart", run.id).text
            wait_until(lambda: (5,) in sink.rows)
            produce_while_paused(6)
            assert "stopped" in cli.run("pipeline", "stop", run.id).text
        finally:
            run.stop()

    run.start()
    with ThreadPoolExecutor(1) as operator:
        operated = operator.submit(operate)
        run.wait(for_s=100)
        operated.result()
    seen = run_of(cli, name)
    assert (seen["run"], seen["state"], seen["restarts"]) == (run.id, "stopped", 1)
    assert (seen["parts"][0]["rows_in"], seen["parts"][0]["rows_out"]) == (5, 5)
    assert (sink.opened, sink.closed) == (2, 2)
    assert sink.rows == [(1,), (2,), (3,), (4,), (5,)]
    assert bench.spark.streams.active == []
    assert committed(bench.bootstrap, f"penstock-{name}") == {(bench.topic, 0): 5}
    bench.run_once(run.pipeline)
    assert sink.rows == [(1,), (2,), (3,), (4,), (5,), (6,)]
    assert len(sink.calls) == len(sink.batches)


def test_the_opened_sinks_are_closed_when_another_cannot_be_opened(bench: Bench) -> None:
    sink, missing = Collected(), TopicSink(unique("missing"))
    with pytest.raises(PipelineError, match=f"the sink {missing.name} cannot be used: .*does not exist"):
        Run(bench.spark, bench.pipeline(sink, missing)).start()
    assert (sink.opened, sink.closed) == (1, 1)


def test_the_topic_is_named_when_a_source_is_not_there(bench: Bench) -> None:
    missing = unique("nowhere")
    with pytest.raises(PipelineError, match=missing):
        bench.run_once(replace(bench.pipeline(Collected()), sources=(Topic(missing),)))
