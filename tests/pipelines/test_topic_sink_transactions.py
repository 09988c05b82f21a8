"""One task's transaction against a real broker, without Spark: who wins, who is fenced, what a reader sees."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException

from penstock.pipelines.options import OptionScope
from penstock.pipelines.topic_writing import clients
from penstock.pipelines.topic_writing.errors import ColumnError, WriteError
from penstock.pipelines.topic_writing.librdkafka import RawProducer
from penstock.pipelines.topic_writing.marker import Marker, TaskOfBatch
from penstock.pipelines.topic_writing.markers import read_marker, read_markers_of_sink
from penstock.pipelines.topic_writing.rows import ColumnPlan, plan_columns
from penstock.pipelines.topic_writing.transactional import write_once
from penstock.pipelines.topic_writing.write_options import SinkOptions, parse_sink_options
from tests.pipelines.committed import committed_values, make_topic, unique


class Bench:
    """A topic, and tasks that write to it."""

    def __init__(self, bootstrap: str, **settings: str) -> None:
        self.bootstrap = bootstrap
        self.topic = make_topic(bootstrap, "transactions")
        self.query_id = unique("query")
        given = {"kafka.bootstrap.servers": bootstrap, "topic": self.topic}
        given |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.options: SinkOptions = parse_sink_options(given, OptionScope.STREAM_WRITE)
        self.plan: ColumnPlan = plan_columns([("value", "string")], self.topic)

    def work(self, batch_id: int, task: int = 0, tasks: int | None = 2) -> TaskOfBatch:
        return TaskOfBatch(self.query_id, "sink", batch_id, task, tasks)

    def write(self, batches: Iterator[pa.RecordBatch], work: TaskOfBatch) -> int | None:
        return write_once(batches, self.plan, self.options, work)

    def forget_producer(self, work: TaskOfBatch) -> None:
        """As a worker that has not run this task before."""
        clients.take_transactional(self.options, work.transactional_id)

    def values(self) -> list[str]:
        return committed_values(self.bootstrap, self.topic)


def rows(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(values)})


@pytest.fixture
def bench(bootstrap: str) -> Bench:
    return Bench(bootstrap)


def test_rows_are_there_once_when_batches_come_one_after_the_other_and_again(bench: Bench) -> None:
    assert bench.write(iter([rows("a"), rows(), rows("b", "c")]), bench.work(0)) == 3
    assert bench.write(iter([rows("a", "b", "c")]), bench.work(0)) is None
    assert bench.write(iter([rows("d")]), bench.work(1)) == 1
    bench.forget_producer(bench.work(1))
    assert bench.write(iter([rows("d")]), bench.work(1)) is None
    assert bench.write(iter([rows("e")]), bench.work(2)) == 1
    assert bench.values() == ["a", "b", "c", "d", "e"]


def test_a_producer_fenced_by_another_worker_is_replaced_when_its_task_comes_back(bench: Bench) -> None:
    bench.write(iter([rows("a")]), bench.work(0))
    key = bench.work(0).transactional_id
    kept = clients.take_transactional(bench.options, key)
    assert kept is not None
    assert bench.write(iter([rows("b")]), bench.work(1)) == 1  # elsewhere
    clients.give_transactional_back(bench.options, key, kept)
    assert bench.write(iter([rows("b")]), bench.work(1)) is None, "what it remembers of the marker is out of date"
    kept = clients.take_transactional(bench.options, key)
    bench.write(iter([rows("c")]), bench.work(2))
    assert kept is not None
    clients.give_transactional_back(bench.options, key, kept)
    assert bench.write(iter([rows("d"), rows("e")]), bench.work(3)) == 2
    assert bench.values() == ["a", "b", "c", "d", "e"]


def test_a_zombie_is_fenced_and_leaves_nothing_when_another_attempt_overtakes_it(bench: Bench) -> None:
    def overtaken() -> Iterator[pa.RecordBatch]:
        yield rows("a")
        assert bench.write(iter([rows("a"), rows("b")]), bench.work(0)) == 2
        yield rows("b")

    with pytest.raises(
        WriteError, match=r"task 0 of batch 0 of sink sink .* another attempt at this task has taken over"
    ):
        bench.write(overtaken(), bench.work(0))
    assert bench.values() == ["a", "b"]
    assert bench.write(iter([rows("a"), rows("b")]), bench.work(0)) is None


def test_an_attempt_finds_the_marker_when_a_zombie_was_first(bench: Bench) -> None:
    bench.write(iter([rows("a")]), bench.work(0))
    bench.forget_producer(bench.work(0))
    assert bench.write(iter([rows("a")]), bench.work(0)) is None
    assert bench.values() == ["a"]


def test_nothing_is_seen_and_nobody_is_held_up_when_the_rows_fail_half_way(bench: Bench) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows("a")
        yield rows("b")
        raise ZeroDivisionError("upstream")

    with pytest.raises(ZeroDivisionError):
        bench.write(failing(), bench.work(0))
    assert bench.values() == []
    assert bench.write(iter([rows("a"), rows("b")]), bench.work(0)) == 2
    assert bench.values() == ["a", "b"]


def test_a_transaction_is_given_up_and_named_when_one_record_is_too_large(bootstrap: str) -> None:
    bench = Bench(bootstrap, max_request_size="2000")
    with pytest.raises(WriteError, match=f"batch 0 .* a record for topic {bench.topic} is too large .5000 bytes."):
        bench.write(iter([rows("a"), rows("x" * 5000)]), bench.work(0))
    with pytest.raises(WriteError, match="is too large"):
        bench.write(iter([rows("x" * 5000)]), bench.work(0))
    assert bench.values() == []


def test_a_task_without_rows_asks_no_broker_when_it_is_written(bench: Bench) -> None:
    nowhere = parse_sink_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, OptionScope.STREAM_WRITE)
    assert write_once(iter([rows(), rows()]), bench.plan, nowhere, bench.work(0)) == 0
    assert write_once(iter([]), bench.plan, nowhere, bench.work(0)) == 0


def test_a_batch_cut_differently_is_refused_when_it_comes_again(bench: Bench) -> None:
    bench.write(iter([rows("a")]), bench.work(0, task=0, tasks=2))
    bench.write(iter([rows("b")]), bench.work(0, task=1, tasks=2))
    bench.forget_producer(bench.work(0, task=1))
    with pytest.raises(WriteError, match="by 2 tasks and comes again with 3; only 2 tasks can finish it"):
        bench.write(iter([rows("b")]), bench.work(0, task=1, tasks=3))
    settings = bench.options.client_settings
    found = read_markers_of_sink(clients.open_admin(settings), settings, bench.query_id, "sink", bench.topic)
    assert found == {0: Marker(1, 2), 1: Marker(1, 2)}
    assert read_marker(settings, bench.work(0, task=1).group, None) == Marker(1, 2)
    assert read_marker(settings, bench.work(0, task=2).group, bench.topic) is None


def test_tasks_outnumber_partitions_without_harm_when_markers_are_written(bench: Bench) -> None:
    for task in range(3):
        assert bench.write(iter([rows(str(task))]), bench.work(0, task, 3)) == 1
        bench.forget_producer(bench.work(0, task))
    assert [bench.write(iter([rows("again")]), bench.work(0, task, 3)) for task in range(3)] == [None] * 3
    assert bench.values() == ["0", "1", "2"]


def test_the_brokers_limit_is_named_when_the_transaction_timeout_is_beyond_it(bootstrap: str) -> None:
    bench = Bench(bootstrap, transaction_timeout_ms="2000000000")
    with pytest.raises(
        WriteError, match=r"kafka.transaction.timeout.ms is more than the brokers' transaction.max.timeout"
    ):
        bench.write(iter([rows("a")]), bench.work(0))


def test_a_bad_row_aborts_at_once_when_it_is_among_the_first(bench: Bench) -> None:
    plan = plan_columns([("value", "string"), ("topic", "string")], None)
    good = pa.RecordBatch.from_pydict({"value": ["a"], "topic": [bench.topic]})
    bad = pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": [bench.topic, None]})
    for batches in ([good, bad], [bad]):
        with pytest.raises(ColumnError, match="column topic is null in the row with topic None, value 'b'"):
            write_once(iter(batches), plan, bench.options, bench.work(0))
    assert bench.values() == []


def test_the_driver_ends_a_transaction_when_a_killed_task_left_it_open(bench: Bench) -> None:
    settings = bench.options.client_settings
    work = bench.work(1)
    bench.write(iter([rows("a")]), bench.work(0))
    killed = RawProducer({**settings, "transactional.id": work.transactional_id}, lambda _: None)
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.send_offset_to_transaction(work.group, bench.topic, 0, work.marker.next_batch, "tasks=2", 30)
    admin = clients.open_admin(settings)
    found = read_markers_of_sink(admin, settings, bench.query_id, "sink", bench.topic, patience_s=1.0)
    assert found == {0: Marker(1, 2)}
    with pytest.raises(KafkaException) as refused:
        killed.commit_transaction(30)
    assert refused.value.args[0].fatal()
