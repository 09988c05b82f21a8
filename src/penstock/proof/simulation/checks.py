"""What must hold when a schedule is over and everything has come to rest."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.broker import Broker
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.log.partition_log import PartitionLog
from penstock.proof.simulation.notebook import CommitAttempt, KeyedSend, Notebook, Partition
from penstock.proof.simulation.plan import Mode
from penstock.proof.simulation.readers import open_batches
from penstock.proof.simulation.topics import KEYED, RECORDS, RECORDS_PARTITIONS
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.fetch import AbortedTransaction, PartitionData
from penstock.protocol.records import Record, iterate_records
from penstock.testing.history import Isolation, Outcome
from penstock.testing.history_check import check
from penstock.transactions.records import TransactionChange, decode_record
from penstock.transactions.state import IDLE, NEXT_STATES

_EVERYTHING = 1 << 30


def check_all(broker: Broker, notebook: Notebook, mode: Mode) -> None:
    for partition in broker.partitions:
        if partition.log.offline_reason is not None:
            notebook.fail(f"{partition.topic_partition} is offline: {partition.log.offline_reason}")
            return
    try:
        _check_records(broker, notebook, mode)
        if mode is not Mode.LOOSE:
            _check_transactions(broker, notebook)
            _check_commits(broker, notebook)
    except ApiError as error:
        notebook.fail(f"reading at the end failed: {error}")


def read_partition(log: PartitionLog, isolation: Isolation) -> list[Record]:
    limit = log.last_stable_offset if isolation is Isolation.READ_COMMITTED else log.high_watermark
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < limit:
        found = log.reader.read(offset, _EVERYTHING, limit, at_least_one=True)
        if found is None or not len(found):
            break
        aborted = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in log.reader.aborted_transactions_in(offset, found)
        ]
        data = PartitionData(records=found.read(0, len(found)), aborted_transactions=aborted)
        batches = open_batches(data, offset, isolation)
        if batches.next_offset == offset:
            break
        records += batches.records
        offset = batches.next_offset
    return records


def has_open_transactions(broker: Broker) -> bool:
    counts = broker.transactions.coordinator.transaction_counts()
    return (
        any(count and state not in IDLE for state, count in counts.items())
        or broker.transactions.waiting_markers > 0
        or any(each.log.last_stable_offset != each.log.high_watermark for each in broker.partitions)
    )


# ---- records


def _check_records(broker: Broker, notebook: Notebook, mode: Mode) -> None:
    final: dict[Partition, list[tuple[int, str]]] = {}
    everywhere: list[Partition] = [(RECORDS, index) for index in range(RECORDS_PARTITIONS)]
    for where in [*everywhere, (KEYED, 0)]:
        partition = broker.partitions.find(*where)
        if partition is None:
            notebook.fail(f"{where} is gone")
            return
        records = read_partition(partition.log, Isolation.READ_COMMITTED)
        final[where] = [(record.offset, record.value.decode()) for record in records if record.value is not None]
        if where[0] == KEYED and mode is not Mode.LOOSE:
            _check_keys(records, notebook)
    if mode is Mode.LOOSE:
        _check_sanity(final, notebook)
        return
    report = check(notebook.history(), final=final, compacted=[KEYED])
    for anomaly in report.anomalies:
        notebook.fail(str(anomaly))


def _check_sanity(final: dict[Partition, list[tuple[int, str]]], notebook: Notebook) -> None:
    """Whatever was lost: each record that is served was sent, and is served once."""
    sent = {send.value for attempt in notebook.attempts for send in attempt.sends}
    sent |= {keyed.value for attempt in notebook.attempts for keyed in attempt.keyed}
    for where, records in final.items():
        values = [value for _, value in records]
        if unknown := set(values) - sent:
            notebook.fail(f"{where} holds what nobody sent: {sorted(unknown)}")
        if len(set(values)) != len(values):
            notebook.fail(f"{where} holds a record twice")


def _check_keys(records: list[Record], notebook: Notebook) -> None:
    """The latest value of each key is the one that was acknowledged last, or one of unknown fate behind it."""
    attempts: dict[str, list[KeyedSend]] = {}
    for attempt in notebook.attempts:
        for keyed in attempt.keyed:
            attempts.setdefault(keyed.key, []).append(keyed)
    latest = {(record.key or b"").decode(): record for record in records}
    for key, sent in attempts.items():
        known = [each for each in sent if each.outcome is Outcome.OK and each.offset is not None]
        best = max(known, key=lambda each: each.offset or 0, default=None)
        problem = _judge_key(latest.get(key), best, [each for each in sent if each.outcome is not Outcome.FAILED])
        if problem:
            notebook.fail(f"key {key}: {problem}; acknowledged last: {best}")


def _judge_key(found: Record | None, best: KeyedSend | None, possible: list[KeyedSend]) -> str | None:
    if found is None:
        may_be_deleted = any(each.value is None and each is not best for each in possible)
        return None if best is None or best.value is None or may_be_deleted else "its record is gone"
    value = None if found.value is None else found.value.decode()
    if best is not None and best.offset is not None and found.offset < best.offset:
        return f"an older record came back: {found}"
    if best is not None and found.offset == best.offset:
        return None if value == best.value else f"it has another value: {found}"
    return None if any(each.value == value for each in possible) else f"nobody sent {found}"


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
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.reader.read(offset, _EVERYTHING, log.log_end_offset, at_least_one=True)
        if found is None:
            return
        content, at = found.read(0, len(found)), 0
        while at < len(content):
            header = read_header(content, at)
            for record in iterate_records(content[at : at + header.size]):
                change = decode_record(record.key or b"", record.value)
                if isinstance(change, TransactionChange):
                    yield change
            at += header.size
            offset = header.next_offset


# ---- committed offsets


def _check_commits(broker: Broker, notebook: Notebook) -> None:
    by_place: dict[tuple[str, Partition], list[CommitAttempt]] = {}
    for commit in notebook.commits:
        by_place.setdefault((commit.group, commit.partition), []).append(commit)
    for (group, where), commits in by_place.items():
        found = notebook.found_offsets.get((group, where), -1)
        candidates = _possible_commits(commits)
        must_be_there = any(commit.outcome is Outcome.OK for commit in commits)
        if found == -1 and must_be_there:
            notebook.fail(f"the offset of {where} that {group} committed is gone; it may be one of {candidates}")
        elif found != -1 and found not in candidates:
            notebook.fail(f"{group} finds {found} as offset of {where}; it may be one of {candidates}")


def _possible_commits(commits: list[CommitAttempt]) -> list[int]:
    """Not those that failed, nor those that were done before another one that succeeded began."""
    last_sure = max((commit.invoked for commit in commits if commit.outcome is Outcome.OK), default=0)
    return [
        commit.offset
        for commit in commits
        if commit.outcome is Outcome.UNKNOWN or (commit.outcome is Outcome.OK and commit.completed >= last_sure)
    ]
