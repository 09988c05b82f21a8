"""Settles on the driver, before the first row, which cut of a batch may be written.

A repeated batch may be cut otherwise: its size is judged anew, so that the driver writes it instead of tasks, or there
are more tasks. The tasks of the attempt before may still be alive, since an executor can outlive its driver and a
driver can be stopped for a while. A task of that attempt would find no marker if no task has written under its number,
and would write its rows a second time. So, before a batch that may have been begun:

    take the driver's id     fences every earlier driver: none of them claims a batch and starts tasks any more
    look                     at the driver's claim, which names the batch that tasks were started on last and the number
                             of tasks, and at the markers of all tasks
    shut out                 where the batch was begun in another cut: take the id of each task of that cut, which ends
                             what the task has open, and put a claim beside its marker, which refuses the task that
                             comes later. Where tasks are to write, the driver counts as the task 0 of a cut into one
    claim                    by the driver's id, where tasks are to write
    start the tasks, or write

No task can have begun a batch that follows one that this driver has finished: its tasks cost one claim, and a batch
that the driver writes itself costs nothing.

A driver that dies in between leaves a state from which the next one does the same: the driver's claim names the new cut
only when every task of the cut before is shut out. A task that the dead driver has shut out of the present cut is let
in again by a new claim. A task that commits between the look and its claim is found when its id is taken: the driver
looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaException

from penstock.pipelines.topic_writing.clients import open_admin
from penstock.pipelines.topic_writing.errors import ClaimError, WriteError
from penstock.pipelines.topic_writing.librdkafka import RawProducer
from penstock.pipelines.topic_writing.marker import (
    DRIVER,
    MARKER_PARTITION,
    Begun,
    Marker,
    group_of,
    transactional_id_of,
)
from penstock.pipelines.topic_writing.markers import read_marker, read_markers_of_sink
from penstock.pipelines.topic_writing.transactional import explain, patiently
from penstock.pipelines.topic_writing.write_options import SinkOptions


@dataclass(frozen=True, slots=True)
class Claims:
    """Holds the driver's id of one sink and query. ClaimError: the id is lost, or what was seen is out of date; take
    the id anew and look again."""

    driver: _HeldId

    @classmethod
    def take(cls, options: SinkOptions, is_wanted: Callable[[], bool]) -> Claims:
        return cls(_HeldId.take(options, _id_of(options, DRIVER), is_wanted))

    def look(self, options: SinkOptions, patience_s: float) -> Begun:
        """A transaction that a task has left open for so long as `patience_s` is ended."""
        query_id, batch_id, topic = _identity(options)
        settings = options.client_settings
        claim = read_marker(settings, self.driver.group, topic)
        admin = open_admin(settings)
        by_task = read_markers_of_sink(admin, settings, query_id, options.sink_name, topic, patience_s)
        return Begun(batch_id, claim, by_task)

    def settle(self, options: SinkOptions, begun: Begun | None, tasks: int, is_wanted: Callable[[], bool]) -> None:
        """Returns when only `tasks` tasks can write the batch; one may be this driver. `begun` is None where the batch
        follows one that this driver has finished."""
        _, batch_id, _ = _identity(options)
        claim = Marker(batch_id, cut=tasks)
        shut_out = begun.tasks_to_shut_out(tasks) if begun is not None else []
        for task in shut_out:
            _shut_out(options, task, claim, is_wanted)
        if shut_out or tasks > 1:
            self.driver.commit(claim, is_wanted)

    def close(self) -> None:
        self.driver.close()


def _shut_out(options: SinkOptions, task: int, claim: Marker, is_wanted: Callable[[], bool]) -> None:
    held = _HeldId.take(options, _id_of(options, task), is_wanted)
    found = read_marker(options.client_settings, held.group, held.topic)
    if found is not None and found.next_batch > claim.next_batch:
        raise ClaimError(f"task {task} of sink {options.sink_name} has written batch {claim.next_batch} meanwhile")
    held.commit(claim, is_wanted)
    held.close()


@dataclass(frozen=True, slots=True)
class _HeldId:
    """A transactional id that this process took, to write markers without rows. After a failure it is let go and not
    closed: see `bounded_call`."""

    producer: RawProducer
    transactional_id: str
    topic: str

    @classmethod
    def take(cls, options: SinkOptions, transactional_id: str, is_wanted: Callable[[], bool]) -> _HeldId:
        _, _, topic = _identity(options)
        with _explained(transactional_id):
            producer = RawProducer({**options.settings, "transactional.id": transactional_id}, lambda _: None)
            patiently(producer.init_transactions, is_wanted)
        return cls(producer, transactional_id, topic)

    @property
    def group(self) -> str:
        return group_of(self.transactional_id)

    def commit(self, claim: Marker, is_wanted: Callable[[], bool]) -> None:
        at = (self.group, self.topic, MARKER_PARTITION, claim.next_batch, claim.to_metadata())
        producer = self.producer
        with _explained(self.transactional_id):
            producer.begin_transaction()
            patiently(lambda timeout_s: producer.send_offset_to_transaction(*at, timeout_s), is_wanted)
            patiently(producer.commit_transaction, is_wanted)

    def close(self) -> None:
        self.producer.close()


@contextmanager
def _explained(transactional_id: str) -> Iterator[None]:
    doing = f"claiming a batch by the transactional id {transactional_id}"
    try:
        yield
    except KafkaException as error:
        raise ClaimError(f"{doing}: {explain(error)}") from error
    except WriteError as error:
        raise ClaimError(f"{doing}: {error}") from error


def _id_of(options: SinkOptions, task: int | Literal["driver"]) -> str:
    query_id, _, _ = _identity(options)
    return transactional_id_of(query_id, options.sink_name, task)


def _identity(options: SinkOptions) -> tuple[str, int, str]:
    query_id, batch_id, topic = options.query_id, options.batch_id, options.topic
    assert query_id is not None
    assert batch_id is not None
    assert topic is not None
    return query_id, batch_id, topic
