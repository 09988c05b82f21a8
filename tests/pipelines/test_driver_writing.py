"""A small batch that the driver writes: how often it tries, and that it ends with its query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pytest

from penstock.pipelines.options import OptionScope
from penstock.pipelines.topic_writing.errors import RefusedError, WriteError
from penstock.pipelines.topic_writing.rows import plan_columns
from penstock.pipelines.topic_writing.task import TaskWrite, close_writers_here
from penstock.pipelines.topic_writing.write_options import parse_sink_options
from tests.pipelines.committed import committed_values, make_topic, unique

NOBODY = "127.0.0.1:1"


def writing_of(bootstrap: str, topic: str, query_id: str, batch_id: int, **options: str) -> TaskWrite:
    named = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "queryId": query_id, "batchId": str(batch_id)}
    parsed = parse_sink_options(
        {"guarantee": "exactly-once", "sinkName": "sink"} | named | options, OptionScope.BATCH_WRITE
    )
    return TaskWrite(parsed, plan_columns([("value", "string")], topic))


def rows(*values: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": list(values)})]


@dataclass
class Query:
    """Stopped when it is asked for the second time."""

    asked: int = 0

    def is_wanted(self) -> bool:
        self.asked += 1
        return self.asked < 2


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_writing_ends_with_its_query_when_the_broker_is_away(
    guarantee: Literal["exactly-once", "at-least-once"], caplog: pytest.LogCaptureFixture
) -> None:
    query = Query()
    with pytest.raises(WriteError):
        writing_of(NOBODY, "numbers", unique("query"), 0, guarantee=guarantee).write_here(rows("1"), query.is_wanted)
    assert query.asked <= 4, "one attempt, given up where it waits"
    assert "trying again" not in caplog.text


def test_a_batch_is_tried_once_when_no_further_attempt_can_help(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, query_id = make_topic(bootstrap, "refused"), unique("query")
    newer = writing_of(bootstrap, topic, query_id, 5)
    newer.write_here(rows("a"))
    with pytest.raises(RefusedError, match="the checkpoint is older"):
        writing_of(bootstrap, topic, query_id, 3).write_here(rows("b"))
    close_writers_here(newer.options)
    assert "trying again" not in caplog.text
    assert committed_values(bootstrap, topic) == ["a"]


def test_a_batch_that_comes_again_is_not_written_twice_when_rows_choose_their_topics(bootstrap: str) -> None:
    own, chosen, query_id = make_topic(bootstrap, "own"), make_topic(bootstrap, "chosen"), unique("query")
    options = writing_of(bootstrap, own, query_id, 0).options
    write = TaskWrite(options, plan_columns([("value", "string"), ("topic", "string")], None))
    batch = [pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": [chosen, own]})]
    for _ in range(2):
        write.write_here(batch)
        close_writers_here(options)  # another driver knows what the broker has alone
    assert (committed_values(bootstrap, chosen), committed_values(bootstrap, own)) == (["a"], ["b"])
