"""A batch that comes again cut otherwise than before, while what the driver before had begun comes to life late.

What a driver does before the first row of its batch is done here by `Claims` itself, what its tasks do by `write_once`;
two tests have a whole sink on Spark.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.pipelines.pipeline import Batch, Settings, always_wanted
from penstock.pipelines.sinks.topic import OpenTopic, TopicSink
from penstock.pipelines.topic_writing import clients
from penstock.pipelines.topic_writing.claims import Claims
from penstock.pipelines.topic_writing.errors import ClaimError, RefusedError
from penstock.pipelines.topic_writing.marker import TaskOfBatch
from penstock.pipelines.topic_writing.rows import plan_columns
from penstock.pipelines.topic_writing.transactional import write_once
from penstock.pipelines.topic_writing.write_options import SinkOptions
from tests.pipelines.committed import committed_values, make_topic, unique

# Six rows of each batch. A driver that writes them itself is one task.
NUMBERS = range(6)
PATIENCE_S = 1.0


@dataclass
class Story:
    """One query of one sink, and the drivers that it has had."""

    bootstrap: str
    sink: TopicSink = field(init=False)
    query_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.sink = TopicSink(make_topic(self.bootstrap, "cut"))
        self.query_id = unique("query")

    @property
    def settings(self) -> Settings:
        return Settings(bootstrap_servers=self.bootstrap)

    def batch(self, number: int, size: int | None = None) -> Batch:
        return Batch(self.query_id, "test", number, size=size)

    def options(self, number: int = 0) -> SinkOptions:
        return OpenTopic(self.sink, self.settings).options(self.batch(number))

    def start_driver(self, tasks: int) -> None:
        """Up to the first row of its batch."""
        options = self.options()
        claims = Claims.take(options, always_wanted)
        claims.settle(options, claims.look(options, PATIENCE_S), tasks, always_wanted)
        claims.close()

    def run_tasks(self, tasks: int, *, those: range | None = None, number: int = 0) -> None:
        """From their first row to the end: those of the last driver, or those of a dead one, whose executor was stopped
        for a while."""
        plan, options = plan_columns([("value", "string")], self.sink.topic), self.options()
        each = len(NUMBERS) // tasks
        for task in those if those is not None else range(tasks):
            work = TaskOfBatch(self.query_id, self.sink.name, number, task, tasks)
            values = [str(number) for number in NUMBERS[task * each : (task + 1) * each]]
            with contextlib.suppress(RefusedError):
                write_once([pa.RecordBatch.from_pydict({"value": values})], plan, options, work)
            clients.close_kept(options, work.transactional_id)

    def check(self, batches: int = 1) -> None:
        assert committed_values(self.bootstrap, self.sink.topic) == sorted("012345" * batches)


@pytest.fixture
def story(bootstrap: str) -> Story:
    return Story(bootstrap)


def rows_of(spark: SparkSession, tasks: int) -> DataFrame:
    return spark.range(0, len(NUMBERS), 1, tasks).selectExpr("CAST(id AS STRING) AS value")


def open_sink(story: Story, spark: SparkSession) -> OpenTopic:
    opened = story.sink.open(spark, story.settings)
    assert isinstance(opened, OpenTopic)
    return opened


def test_late_tasks_write_nothing_when_their_batch_came_again_small(story: Story, spark: SparkSession) -> None:
    fails = rows_of(spark, 2).selectExpr("CAST(raise_error('killed before the first row') AS STRING) AS value")
    with pytest.raises(PySparkException, match="killed before the first row"):
        open_sink(story, spark).write(fails, story.batch(0))
    open_sink(story, spark).write(rows_of(spark, 2), story.batch(0, size=100))
    story.run_tasks(2)
    story.check()


def test_a_late_driver_starts_no_tasks_when_another_one_has_taken_over(story: Story, spark: SparkSession) -> None:
    late = open_sink(story, spark)
    late.write(rows_of(spark, 2), story.batch(0))
    open_sink(story, spark).write(rows_of(spark, 2), story.batch(1, size=100))
    late.write(rows_of(spark, 2), story.batch(1))
    story.check(batches=2)


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3), (3, 1)])
def test_late_tasks_write_nothing_when_their_batch_came_again_in_another_number_of_tasks(
    story: Story, before: int, after: int
) -> None:
    story.start_driver(before)
    story.start_driver(after)
    story.run_tasks(before)
    story.run_tasks(after)
    story.run_tasks(before)
    story.check()


def test_a_late_driver_writes_nothing_when_tasks_wrote_its_batch(story: Story) -> None:
    """The driver is the task 0 of one. The first task of the three has no rows, so that it takes no id."""
    story.start_driver(1)
    story.start_driver(3)
    story.run_tasks(3, those=range(1, 3))
    story.run_tasks(1)
    assert committed_values(story.bootstrap, story.sink.topic) == ["2", "3", "4", "5"]


def test_a_batch_is_finished_in_its_first_cut_when_a_driver_with_another_one_died(story: Story) -> None:
    for tasks in (3, 2, 3):
        story.start_driver(tasks)
    story.run_tasks(2)
    story.run_tasks(3)
    story.check()


def test_the_driver_looks_again_when_a_task_commits_before_it_is_shut_out(story: Story) -> None:
    story.start_driver(3)
    options = story.options()
    claims = Claims.take(options, always_wanted)
    begun = claims.look(options, PATIENCE_S)
    story.run_tasks(3, those=range(1, 2))
    with pytest.raises(ClaimError, match=r"task 1 of sink .* has written batch 0 meanwhile"):
        claims.settle(options, begun, 2, always_wanted)
    assert claims.look(options, PATIENCE_S).needs_tasks
    claims.close()
    story.start_driver(3)
    story.run_tasks(3)
    story.check()
