"""A sender against a real broker, without Spark: what arrives, in which order, and what is told of the rest."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipelines.options import OptionScope
from penstock.pipelines.pipeline import always_wanted
from penstock.pipelines.topic_writing.delivery import Sender
from penstock.pipelines.topic_writing.errors import WriteError
from penstock.pipelines.topic_writing.rows import ColumnPlan
from penstock.pipelines.topic_writing.write_options import parse_sink_options
from penstock.testing.processes import BrokerProcess
from tests.pipelines.committed import make_topic, read_committed

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def open_sender(bootstrap: str, **settings: str) -> Sender:
    """`settings` has `_` for `.`."""
    given = {"kafka.bootstrap.servers": bootstrap}
    given |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    options = parse_sink_options(given, OptionScope.BATCH_WRITE)
    return Sender.open(options.settings, options.message_timeout_s)


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_the_same_bytes_arrive_when_cells_are_null_empty_or_sliced(bootstrap: str, kind: pa.DataType) -> None:
    topic = make_topic(bootstrap, "bytes")
    values = pa.array(["not sent", "ä", None, "", "x" * 1000, "not sent"]).cast(kind)
    keys = pa.array(["not sent", None, "", "k", "ö", "not sent"]).cast(kind)
    sender = open_sender(bootstrap)
    sender.send(batch(value=values, key=keys).slice(1, 4), ColumnPlan(value=0, key=1, fixed_topic=topic))
    sender.send(batch(value=pa.array([None, ""], kind)), ColumnPlan(value=0, fixed_topic=topic))
    sender.send(batch(value=pa.array([], kind)), ColumnPlan(value=0, fixed_topic=topic))
    sender.finish()
    assert [(m.key(), m.value()) for m in read_committed(bootstrap, topic)] == [
        (None, "ä".encode()),
        (b"", None),
        (b"k", b""),
        ("ö".encode(), b"x" * 1000),
        (None, None),
        (None, b""),
    ]


@pytest.mark.parametrize("way", ["plain", "topics", "partitions", "mixed", "headers"])
def test_rows_arrive_in_order_when_the_queue_holds_but_ten(bootstrap: str, way: str) -> None:
    count, topics = 600, [make_topic(bootstrap, "order", 2), make_topic(bootstrap, "order", 2)]
    columns = {
        "value": pa.array([str(number) for number in range(count)]),
        "topic": pa.array([topics[number % 3 == 0] for number in range(count)]),
        "partition": pa.array([number % 2 for number in range(count)], pa.int32()),
        "mixed": pa.array([0 if number % 5 else None for number in range(count)], pa.int32()),
        "headers": pa.array(
            [[{"key": "n", "value": b"%d" % number}] * (number % 3) for number in range(count)], HEADERS
        ),
        "key": pa.array(["same"] * count),
    }
    plans = {
        "plain": ColumnPlan(value=0, key=5, fixed_topic=topics[0]),
        "topics": ColumnPlan(value=0, key=5, topic=1),
        "partitions": ColumnPlan(value=0, topic=1, partition=2),
        "mixed": ColumnPlan(value=0, key=5, topic=1, partition=3),
        "headers": ColumnPlan(value=0, topic=1, partition=2, headers=4),
    }
    sender = open_sender(bootstrap, queue_buffering_max_messages="10", linger_ms="1")
    sender.send(batch(**columns), plans[way])
    sender.finish()
    found = [message for topic in topics for message in read_committed(bootstrap, topic)]
    assert sorted(int(message.value() or b"") for message in found) == list(range(count))
    for before, after in pairwise(found):
        if (before.topic(), before.partition()) == (after.topic(), after.partition()):
            assert int(before.value() or b"") < int(after.value() or b"")
    for message in found:
        number = int(message.value() or b"")
        if way != "plain":
            assert message.topic() == topics[number % 3 == 0]
        if way in ("partitions", "headers"):
            assert message.partition() == number % 2
        if way == "headers":
            assert (message.headers() or []) == [("n", message.value())] * (number % 3)


def test_failures_are_told_and_counted_when_a_topic_takes_no_such_records(bootstrap: str) -> None:
    topic = make_topic(bootstrap, "small", max_message_bytes="3000")
    sender = open_sender(bootstrap, enable_idempotence="false", linger_ms="0")
    plan = ColumnPlan(value=0, fixed_topic=topic)
    sender.send(batch(value=pa.array(["x" * 5000] * 5)), plan)
    with pytest.raises(WriteError, match=rf"a record for topic {topic}, partition 0 is too large \(5000 bytes\)"):
        sender.finish()
    assert sender.failures.count == 5
    sender.begin(always_wanted)
    sender.send(batch(value=pa.array(["small enough"])), plan)
    sender.finish()
    assert [message.value() for message in read_committed(bootstrap, topic)] == [b"small enough"]


@pytest.mark.parametrize("headers", [None, [[{"key": "h", "value": b""}]]])
def test_a_row_is_refused_and_nothing_leaks_when_its_partition_is_not_there(
    bootstrap: str, headers: list[object] | None
) -> None:
    topic = make_topic(bootstrap, "one")
    sender = open_sender(bootstrap)
    columns = {"value": pa.array(["v"]), "partition": pa.array([0], pa.int32())}
    columns |= {} if headers is None else {"headers": pa.array(headers, HEADERS)}
    plan = ColumnPlan(value=0, partition=1, headers=None if headers is None else 2, fixed_topic=topic)
    sender.send(batch(**columns), plan)
    sender.finish()
    columns["partition"] = pa.array([5], pa.int32())
    with pytest.raises(WriteError, match=f"topic {topic}, partition 5 names a partition that the topic does not have"):
        sender.send(batch(**columns), plan)
    assert sender.producer.flush(10) == 0
    sender.close()


def test_failures_are_told_when_the_broker_has_gone(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topic = make_topic(broker.bootstrap_servers, "gone")
        # The first record needs a broker that has just started to answer within that time.
        sender = open_sender(broker.bootstrap_servers, delivery_timeout_ms="4000")
        plan = ColumnPlan(value=0, fixed_topic=topic)
        sender.send(batch(value=pa.array(["arrives"])), plan)
        sender.finish()
    sender.send(batch(value=pa.array(["a", "b", "c", "d", "e"])), plan)
    with pytest.raises(WriteError, match=r"was not confirmed in time .*; and 2 more records"):
        sender.finish()
    sender.close()


def test_a_full_queue_is_given_up_when_nothing_leaves_it() -> None:
    sender = open_sender("127.0.0.1:1", queue_buffering_max_messages="3", delivery_timeout_ms="1000")
    with pytest.raises(WriteError, match="a record for topic t was not confirmed in time"):
        sender.send(batch(value=pa.array(["v"] * 10)), ColumnPlan(value=0, fixed_topic="t"))
    sender.discard()
    sender.close()
