"""A task's rows in one transaction together with its marker.

    take the transactional id   a cached producer has it, a new one gets it by init_transactions, which fences every
                                other holder and finishes what it left open
    look at the marker          what this producer committed last, or what the coordinator says: are the rows there?
    begin, first rows, marker   the marker goes early: a cached producer that was fenced learns it here, while the rows
                                are still in hand, and a new producer takes over
    the other rows, commit

An attempt that commits has held the id since before it looked at the marker: the coordinator refuses every other one.
So of two attempts at the same task at most one commits, and the other finds the marker or fails. A task without rows
does nothing: it has none the next time either.

In round trips, with a producer at hand: AddPartitionsToTxn and Produce beside AddOffsetsToTxn and TxnOffsetCommit, then
EndTxn; two more than a plain write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.pipelines.pipeline import always_wanted
from penstock.pipelines.topic_writing import clients
from penstock.pipelines.topic_writing.clients import TransactionalSender
from penstock.pipelines.topic_writing.delivery import Sender
from penstock.pipelines.topic_writing.errors import RefusedError, WriteError
from penstock.pipelines.topic_writing.marker import MARKER_PARTITION, MarkerDecision, TaskOfBatch, decide
from penstock.pipelines.topic_writing.markers import read_marker
from penstock.pipelines.topic_writing.rows import ColumnPlan, first_topic
from penstock.pipelines.topic_writing.write_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

# For one transactional request, and for all its repetitions; within them brokers elect a new coordinator, or restart.
_REQUEST_S = 5.0
_ALL_REQUESTS_S = 120.0
# A request that does not keep to its own limit (see `bounded_call`) would hold its task, and so its query, for ever.
# Most restarts of a broker make one, so this is what a query mostly waits for then.
_STUCK_AFTER_S = 6.5


def write_once(
    batches: Iterable[pa.RecordBatch],
    plan: ColumnPlan,
    options: SinkOptions,
    work: TaskOfBatch,
    is_wanted: Callable[[], bool] = always_wanted,
) -> int | None:
    """The number of rows written; None where they were there already. WriteError fails the attempt, soon after it is
    no longer wanted at the latest."""
    with_rows = (batch for batch in batches if batch.num_rows)
    first = next(with_rows, None)
    if first is None:
        return 0
    with _explained(work):
        holder = _begin(first, plan, options, work, is_wanted)
        if holder is None:
            # Read to its end all the same, or Spark would end this worker, and its producers with it.
            deque(with_rows, maxlen=0)
            return None
        with _aborted_on_failure(holder.sender):
            written: int = first.num_rows
            for batch in with_rows:
                holder.sender.send(batch, plan)
                written += batch.num_rows
            holder.sender.finish()
            patiently(holder.sender.producer.commit_transaction, is_wanted)
    holder.marker = work.marker
    clients.give_transactional_back(options, work.transactional_id, holder)
    return written


def _begin(
    first: pa.RecordBatch, plan: ColumnPlan, options: SinkOptions, work: TaskOfBatch, is_wanted: Callable[[], bool]
) -> TransactionalSender | None:
    """With the first rows and the marker in an open transaction; None where the batch is there already.

    A producer kept from an earlier task may have been fenced by another worker, or its id may have expired. The reason
    does not matter: a new one takes the id, ends what that one began, and reads the marker."""
    holder = clients.take_transactional(options, work.transactional_id)
    is_new = holder is None
    while True:
        holder = holder or _open(options, work, is_wanted)
        if decide(holder.marker, work) is MarkerDecision.SKIP:
            clients.give_transactional_back(options, work.transactional_id, holder)
            return None
        try:
            with _aborted_on_failure(holder.sender):
                holder.sender.begin(is_wanted)
                _send_first(holder, first, plan, work, options.topic or first_topic(first, plan))
        except (KafkaException, WriteError):
            if is_new or not is_wanted():
                raise
            holder, is_new = None, True
        else:
            return holder


def _open(options: SinkOptions, work: TaskOfBatch, is_wanted: Callable[[], bool]) -> TransactionalSender:
    settings = {**options.settings, "transactional.id": work.transactional_id}
    sender = Sender.open(settings, options.message_timeout_s)
    patiently(sender.producer.init_transactions, is_wanted)
    return TransactionalSender(sender, read_marker(options.client_settings, work.group, options.topic))


def _send_first(
    holder: TransactionalSender, first: pa.RecordBatch, plan: ColumnPlan, work: TaskOfBatch, marked: str
) -> None:
    """`marked` is the topic that the marker is beside."""
    sender, marker = holder.sender, work.marker
    at = (work.group, marked, MARKER_PARTITION, marker.next_batch, marker.to_metadata())
    sender.producer.begin_transaction()
    sender.send(first, plan)
    patiently(lambda timeout_s: sender.producer.send_offset_to_transaction(*at, timeout_s), sender.is_wanted)


@contextmanager
def _aborted_on_failure(sender: Sender) -> Iterator[None]:
    """Aborts the transaction whatever fails, also upstream: an open one would hold up the topic's committed readers."""
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            _abort(sender)


def _abort(sender: Sender) -> None:
    """Tries to abort. If that fails, the next attempt's init_transactions or the coordinator's timeout aborts."""
    try:
        sender.discard()
        call_within(lambda: sender.producer.abort_transaction(_REQUEST_S), _STUCK_AFTER_S)
    except (KafkaException, StuckCallError):
        return


def patiently(request: Callable[[float], object], is_wanted: Callable[[], bool]) -> None:
    """librdkafka's rule: a retriable failure is followed by the same call, every other one is the caller's."""

    def judge(error: Exception) -> Outlook:
        return Outlook.PASSING if error.args[0].retriable() and is_wanted() else Outlook.FINAL

    retrying = Retrying(RetryPolicy(_ALL_REQUESTS_S, 0.0, 0.0))  # each request waits inside the library
    try:
        retrying.run(
            lambda: call_within(lambda: request(_REQUEST_S), _STUCK_AFTER_S),
            KafkaException,
            judge,
        )
    except StuckCallError as error:
        raise WriteError(
            f"the client library has not come back from a request of {_REQUEST_S:.0f} s after {_STUCK_AFTER_S:.0f}"
            " s, which a broker that goes away in its middle can cause; the producer is given up"
        ) from error


_ADVICE = {
    KafkaError._FENCED: "another attempt at this task has taken over, or the transaction was open for longer than"
    " kafka.transaction.timeout.ms",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "kafka.transaction.timeout.ms is more than the brokers'"
    " transaction.max.timeout.ms; lower the one or raise the other",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this user needs Write and Describe on the transactional id",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "this user needs Read on the group that holds the marker",
    KafkaError._TIMED_OUT: "no answer from the transaction coordinator",
}


def explain(error: KafkaException, *further: str) -> str:
    cause: KafkaError = error.args[0]
    advice = _ADVICE.get(cause.code(), "the transaction failed")
    return f"{advice} ({'; '.join((f'{cause.name()}: {cause.str()}', *further))})"


@contextmanager
def _explained(work: TaskOfBatch) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        ids = f"transactional id {work.transactional_id}, group {work.group}"
        raise WriteError(f"{work}: {explain(error, ids)}") from error
    except RefusedError:
        raise  # it names the batch and the sink
    except WriteError as error:
        raise WriteError(f"{work}: {error}") from error
