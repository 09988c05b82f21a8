"""What must hold when a schedule is over and everything has come to rest.

`penstock.testing.history_check` judges what clients were told: records, keys, transactions, committed offsets. Two
kinds of rules stay outside of that checker, since a history does not have what they are about:

- what the broker itself holds: records that stand twice under two numbers (`proof.copies`), partitions that
  are offline, transactions that hang, markers still to be written, and the records of the transaction coordinator,
  whose states go only forward (here)
- which member of a group owns a partition at a time, which no client writes into the log (`Notebook.assigned`,
  `Notebook.take`)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from penstock.broker.broker import Broker
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.log.partition_log import PartitionLog
from penstock.protocol.batch import BatchHeader, iterate_batches
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.fetch import AbortedTransaction, PartitionData
from penstock.protocol.records import Record, iterate_records
from penstock.testing.history import HistoryReport, Isolation
from penstock.testing.history_check import Expectations, check
from penstock.testing.history_commits import NOTHING
from penstock.transactions.records import TransactionChange, decode_record
from penstock.transactions.state import IDLE, NEXT_STATES
from proof.copies import Copy, find_copies, judge_copies
from proof.simulation.notebook import Notebook, Partition
from proof.simulation.plan import Mode
from proof.simulation.readers import open_batches
from proof.simulation.topics import KEYED, RECORDS, RECORDS_PARTITIONS, name_record

_EVERYTHING = 1 << 30


def _nowhere(_: Partition) -> PartitionLog | None:
    return None


def check_all(
    broker: Broker, notebook: Notebook, mode: Mode, elsewhere: Callable[[Partition], PartitionLog | None] = _nowhere
) -> None:
    """`elsewhere` finds what this broker has no replica of."""
    for partition in broker.partitions:
        if partition.log.offline_reason is not None:
            notebook.fail(f"{partition.topic_partition} is offline: {partition.log.offline_reason}")
            return
    try:
        _check_history(broker, notebook, mode, elsewhere)
        if mode is not Mode.LOOSE:
            _check_transactions(broker, notebook)
    except ApiError as error:
        notebook.fail(f"reading at the end failed: {error}")


def read_partition(log: PartitionLog, isolation: Isolation) -> list[Record]:
    limit = log.last_stable_offset if isolation is Isolation.READ_COMMITTED else log.high_watermark
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < limit:
        slice_read = log.reader.read(offset, _EVERYTHING, limit, at_least_one=True)
        if slice_read is None or not len(slice_read):
            break
        aborted = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in log.reader.aborted_transactions_in(offset, slice_read)
        ]
        data = PartitionData(records=slice_read.read(0, len(slice_read)), aborted_transactions=aborted)
        batches = open_batches(data, offset, isolation)
        if batches.next_offset == offset:
            break
        records += batches.records
        offset = batches.next_offset
    return records


def read_batches(log: PartitionLog, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    offset = start
    while offset < end:
        slice_read = log.reader.read(offset, _EVERYTHING, end, at_least_one=True)
        if slice_read is None or not len(slice_read):
            return
        content = slice_read.read(0, len(slice_read))
        for at, header in iterate_batches(content):
            yield header, content[at : at + header.size]
            offset = header.next_offset


def has_open_transactions(broker: Broker) -> bool:
    counts = broker.transactions.coordinator.transaction_counts()
    return (
        any(count and state not in IDLE for state, count in counts.items())
        or broker.transactions.waiting_markers > 0
        or any(each.log.last_stable_offset != each.log.high_watermark for each in broker.partitions)
    )


# ---- the history of the clients


def _check_history(
    broker: Broker, notebook: Notebook, mode: Mode, elsewhere: Callable[[Partition], PartitionLog | None]
) -> None:
    final: dict[Partition, list[tuple[int, str]]] = {}
    copies: dict[Partition, dict[Hashable, list[Copy]]] = {}
    for topic_partition in [*((RECORDS, index) for index in range(RECORDS_PARTITIONS)), (KEYED, 0)]:
        partition = broker.partitions.find(*topic_partition)
        log = elsewhere(topic_partition) if partition is None else partition.log
        if log is None:
            notebook.fail(f"{topic_partition} is gone")
            return
        records = read_partition(log, Isolation.READ_COMMITTED)
        final[topic_partition] = [(record.offset, name_record(record)) for record in records]
        kept = (batch for _, batch in read_batches(log, log.log_start_offset, log.high_watermark))
        copies[topic_partition] = find_copies(kept, name_record)
    anomalies = list(judge_history(notebook, final, mode).anomalies)
    for topic_partition, found in copies.items():
        anomalies = judge_copies(topic_partition, found, anomalies)
    for anomaly in anomalies:
        notebook.fail(str(anomaly))


def judge_history(
    notebook: Notebook, final: Mapping[Partition, Sequence[tuple[int, str]]], mode: Mode
) -> HistoryReport:
    """Pure. In the loose mode everything may be lost: what is served was sent, and is served once."""
    expected = Expectations(compacted=[KEYED], is_complete=True)
    if mode is Mode.LOOSE:
        return check(notebook.unpromised_history(), final=final, expected=expected)
    committed = {place: notebook.committed_offsets.get(place, NOTHING) for place in notebook.committed_places()}
    return check(notebook.history(), final=final, committed=committed, expected=expected)


# ---- transactions


def _check_transactions(broker: Broker, notebook: Notebook) -> None:
    for partition in broker.partitions:
        log = partition.log
        if log.last_stable_offset != log.high_watermark:
            notebook.fail(
                f"{partition.topic_partition}: a transaction hangs at {log.last_stable_offset} of {log.high_watermark}"
            )
        if partition.topic_partition.topic == TRANSACTION_STATE:
            _check_states(log, notebook)
    if broker.transactions.waiting_markers:
        notebook.fail(f"{broker.transactions.waiting_markers} markers are still to be written")
    for state, count in broker.transactions.coordinator.transaction_counts().items():
        if count and state not in IDLE:
            notebook.fail(f"{count} transactions are {state.title} when all is over")


def _check_states(log: PartitionLog, notebook: Notebook) -> None:
    """The records of an id tell a story that only goes forward. A compacted log leaves out parts of it."""
    if log.compaction.cleaned_end:
        return
    last: dict[str, TransactionChange] = {}
    for change in _changes(log):
        before = last.get(change.transactional_id)
        if before is not None and before.transaction is not None and change.transaction is not None:
            old, new = before.transaction, change.transaction
            is_newer = new.producer_id != old.producer_id or new.producer_epoch >= old.producer_epoch
            if new.state not in NEXT_STATES[old.state] or not is_newer:
                notebook.fail(f"{change.transactional_id} went from {old} to {new}")
        last[change.transactional_id] = change


def _changes(log: PartitionLog) -> Iterator[TransactionChange]:
    for _, batch in read_batches(log, log.log_start_offset, log.log_end_offset):
        for record in iterate_records(batch):
            change = decode_record(record.key or b"", record.value)
            if isinstance(change, TransactionChange):
                yield change
