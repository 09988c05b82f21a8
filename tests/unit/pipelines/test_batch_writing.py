"""A batch and the end of its run."""

from __future__ import annotations

import pickle
import re
import threading
import traceback
from dataclasses import dataclass
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from penstock.pipelines import Batch, Pipeline, Topic
from penstock.pipelines.runtime.batch_writing import BatchWriting, StoppedError
from penstock.pipelines.runtime.query_plan import plan_queries
from penstock.pipelines.topic_writing.errors import WriteError
from tests.unit.pipelines.pieces import Nowhere

# As in Spark's StreamExecution: what it takes for a batch that a stop has interrupted.
INTERRUPTION = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)(\r\n|\r|\n): "
    r"(java.lang.InterruptedException|java.io.InterruptedIOException)"
)


@dataclass
class Query:
    isActive: bool = True  # noqa: N815 (its name in Spark)


def writing_of(query: object) -> BatchWriting:
    (plan,) = plan_queries(Pipeline(name="numbers", sources=(Topic("numbers"),), steps=(), sinks=(Nowhere("kept"),)))
    return BatchWriting("numbers", plan, keeps_dead_letters=False, query=cast("Any", query))


class Interrupted:
    """Rows whose query is stopped while they are asked for something."""

    def __init__(self, query: Query, is_stopped: bool, error: Exception) -> None:
        self._query, self._is_stopped, self._error = query, is_stopped, error

    @property
    def sparkSession(self) -> Any:
        self._query.isActive = not self._is_stopped
        raise self._error


OF_JAVA = Py4JError("with a stack trace of Java in it")


@pytest.mark.parametrize("error", [OF_JAVA, WriteError("the query was stopped before the rows were confirmed")])
def test_spark_takes_a_batch_for_interrupted_when_its_query_was_stopped(error: Exception) -> None:
    query = Query()
    with pytest.raises(StoppedError) as raised:
        writing_of(query)(cast("Any", Interrupted(query, is_stopped=True, error=error)), 0)
    text = "".join(traceback.format_exception(raised.value))
    assert INTERRUPTION.search(text)
    assert str(error) not in text


def test_the_error_stays_as_it_is_when_nobody_stopped_the_query() -> None:
    query = Query()
    with pytest.raises(Py4JError, match="stack trace of Java"):
        writing_of(query)(cast("Any", Interrupted(query, is_stopped=False, error=OF_JAVA)), 0)


def test_a_batch_can_go_to_the_tasks_when_a_sink_hands_it_on() -> None:
    lock = threading.Lock()  # as the writing has, which cannot go there
    batch = Batch("query", "numbers/main", 3, 100, is_wanted=lock.locked)
    assert pickle.loads(pickle.dumps(batch)) == batch


class SlowlyStopped:
    """A query that Spark has stopped when it is asked for the third time."""

    asked = 0

    @property
    def isActive(self) -> bool:
        self.asked += 1
        return self.asked < 3


def test_no_batch_is_begun_when_the_run_comes_to_its_end() -> None:
    query = SlowlyStopped()
    writing = writing_of(query)
    writing.ending.set()
    with pytest.raises(StoppedError):
        writing(cast("Any", None), 1)
    assert query.asked == 3  # Spark would take it for a failed batch as long as the query is not stopped
