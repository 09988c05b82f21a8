"""The rules that a history of sends, polls and commits has to keep; Jepsen's for Kafka-like logs, and some more.

This is the one checker of the broker's promises to clients against the contents of a log: every kind of rounds of
`proof` that makes promises records a history, and this module judges it.

A partition's order is the order of its offsets, gaps left out: control markers, aborted records and lost races take
offsets too. It consists of all polled records, and of the acknowledged offsets of sends that must be visible:
acknowledged plain ones, and those of a transaction that was committed or of which a reader of committed records saw
any part.

- inconsistent-offsets: one offset with several values
- duplicate: one value at several offsets
- lost-write: no reader read a send that must be visible, though a reader went past it; or it was read and is gone
- unseen: a send that must be visible stands behind all read records, although the final read went to the end
- nonmonotonic-send, nonmonotonic-poll: a process sent or polled at or before where it was; with `int-` in one operation
- poll-skip, int-poll-skip: a process polled on beyond a record that exists
- G1a: a record of an aborted transaction was read as committed, or a send that failed was read at all
- precommitted-read: a record was read as committed before its transaction's commit request
- G1c: transactions that read each other's records in a circle
- garbage-read: a value that no process sent
- lost-key, stale-key: the latest record of a key is not left in a compacted partition; see `history_keys`
- lost-commit, garbage-commit: the offset that a group finds is older than one that must be there, or was never
  committed; see `history_commits`

Rules that hold only where the caller requests them, since they are not promised to every client (see `Expectations`):

- gap: an offset is missing in a partition without markers, aborted records and compaction
- reordered: the sends of a process stand in another order than they were sent in, whatever their outcomes

Sends of several transactions may lie between each other in a partition, as in Kafka: gaps between the sends of one
operation, and cycles of writes (G0), are therefore no anomaly. The checker does not judge what one transaction should
not yet have read (G2) either, since polls promise no snapshot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.testing.history import (
    Anomaly,
    Assign,
    Commit,
    Final,
    GroupPartition,
    HistoryReport,
    Isolation,
    Operation,
    Outcome,
    Poll,
    Send,
    Where,
)
from penstock.testing.history_commits import check_commits
from penstock.testing.history_cycles import find_cycles
from penstock.testing.history_keys import KeyedSend, check_keys

FINAL_PROCESS = -1
# An anomaly's text names a few of many.
_FEW = 5


@dataclass(frozen=True, slots=True)
class Expectations:
    """The promises beyond the general rules, and the exceptions.

    - `compacted`: topics whose records may go away. There, nothing is reported as skipped, lost or unseen; of sends
      with a key the latest must be left.
    - `starts`: the first remaining offset of a partition, where records are deleted. Earlier records may be gone.
    - `gapless`: topics in which every offset holds a record.
    - `ordered`: processes whose sends stand in the order in which they were sent, and whose commits replace each other.
    - `repeating`: processes that send again what they do not know to be written, without the broker's knowledge. Copies
      of their records are counted, and are no anomaly.
    - `is_complete`: the history has every send there was. A record is garbage, too, in a partition that it never wrote.
    """

    compacted: Collection[str] = ()
    starts: Mapping[Where, int] = field(default_factory=dict)
    gapless: Collection[str] = ()
    ordered: Collection[int] = ()
    repeating: Collection[int] = ()
    is_complete: bool = False


def check(
    history: Sequence[Operation],
    *,
    final: Final | None = None,
    committed: Mapping[GroupPartition, int] | None = None,
    compacted: Collection[str] = (),
    expected: Expectations | None = None,
) -> HistoryReport:
    """`final` has the records that a reader of committed records found from the start to the end of each partition
    after the run; without it, only records that readers went past can be lost. `committed` has the offsets that groups
    found then, -1 for nothing. Records of `compacted` topics may go away: see `Expectations`. ValueError if a value was
    sent twice to a partition.
    """
    in_order = sorted(history, key=lambda operation: operation.invoked)
    everything = [*in_order, _read_finally(in_order, final)] if final else in_order
    checker = _Checker(everything, final or {}, expected or Expectations(compacted))
    checker.check()
    anomalies = [*checker.anomalies, *checker.judge_commits(committed or {})]
    return HistoryReport(
        operations=len(history),
        sent=sum(len(log.writers) for log in checker.logs.values()),
        polled=sum(len(action.records) for each in history for action in each.actions if isinstance(action, Poll)),
        anomalies=tuple(anomalies),
        repeated=checker.repeated,
    )


def _read_finally(history: Sequence[Operation], final: Final) -> Operation:
    """The final read as an operation like any other, behind all others."""
    end = max((operation.completed for operation in history), default=0) + 1
    polls = tuple(Poll(*topic_partition, tuple(records)) for topic_partition, records in final.items())
    return Operation(FINAL_PROCESS, Outcome.OK, polls, invoked=end, completed=end)


class _Log:
    """The facts about one partition."""

    def __init__(self) -> None:
        self.values: dict[int, Hashable] = {}  # by offset
        self.offsets: dict[Hashable, int] = {}  # by value
        self.writers: dict[Hashable, Operation] = {}
        self.seen: set[Hashable] = set()
        self.seen_as_committed: set[Hashable] = set()
        self.promised: dict[Hashable, Operation] = {}  # sends that must be visible
        self.highest_read = -1
        self.passed_over: set[int] = set()  # offsets that some reader skipped
        self.order: list[int] = []  # the offsets of all that must be visible
        self.conflicts: dict[int, dict[Hashable, Operation]] = {}
        self.copies: dict[Hashable, dict[int, Operation]] = {}

    def note(self, offset: int, value: Hashable, operation: Operation) -> None:
        known_value = self.values.setdefault(offset, value)
        if known_value != value:
            self.conflicts.setdefault(offset, {})[value] = operation
        known_offset = self.offsets.setdefault(value, offset)
        if known_offset != offset:
            self.copies.setdefault(value, {})[offset] = operation

    def must_be_visible(self) -> Iterator[Hashable]:
        yield from self.promised
        for value in self.seen:
            if value not in self.promised and self._is_seen_for_good(value):
                yield value

    def is_visible(self, value: Hashable) -> bool:
        """One of `must_be_visible`."""
        return value in self.promised or (value in self.seen and self._is_seen_for_good(value))

    def _is_seen_for_good(self, value: Hashable) -> bool:
        return value in self.seen_as_committed or self._is_plain(value)

    def _is_plain(self, value: Hashable) -> bool:
        writer = self.writers.get(value)
        return writer is not None and not writer.transaction

    def settle_order(self) -> None:
        offsets = (self.offsets.get(value) for value in self.must_be_visible())
        self.order = sorted(offset for offset in offsets if offset is not None)

    def between(self, low: int, high: int) -> Sequence[int]:
        if high == low + 1:
            return ()
        return self.order[bisect_right(self.order, low) : bisect_left(self.order, high)]


class _Checker:
    def __init__(self, history: Sequence[Operation], final: Final, expected: Expectations) -> None:
        self._history = history
        self._final = final
        self._expected = expected
        self._ordered, self._repeating = frozenset(expected.ordered), frozenset(expected.repeating)
        self.repeated = 0
        self.logs: defaultdict[Where, _Log] = defaultdict(_Log)
        self.anomalies: list[Anomaly] = []
        # For each process and partition, the last offset and the operation it was of.
        self._polled: defaultdict[int, dict[Where, tuple[int, Operation]]] = defaultdict(dict)
        self._sent: defaultdict[int, dict[Where, tuple[int, Operation]]] = defaultdict(dict)
        self._reads_from: dict[int, set[int]] = {}  # transactions by the places of reader and writers in the history
        self._places: dict[int, int] = {}

    def check(self) -> None:
        for place, operation in enumerate(self._history):
            self._places[id(operation)] = place
            self._note_actions(operation)
        for operation in self._history:
            self._note_promises(operation)
        for log in self.logs.values():
            log.settle_order()
        for topic_partition, log in self.logs.items():
            self._judge_contents(topic_partition, log)
        for operation in self._history:
            self._judge_operation(operation)
        for topic_partition, log in self.logs.items():
            if topic_partition[0] not in self._expected.compacted:
                self._judge_presence(topic_partition, log)
        self._judge_keys()
        self._judge_order()
        self._judge_cycles()

    def _add(
        self, kind: str, topic_partition: Where | None, text: str, *operations: Operation, value: Hashable = None
    ) -> None:
        place = f"{topic_partition[0]}-{topic_partition[1]}: " if topic_partition else ""
        self.anomalies.append(Anomaly(kind, place + text, operations, value))

    # ------------------------------------------------------------------------------------------ what is known

    def _note_actions(self, operation: Operation) -> None:
        for action in operation.actions:
            if isinstance(action, Send):
                writers = self.logs[action.topic, action.partition].writers
                if action.value in writers:
                    raise ValueError(f"{action.value!r} was sent twice to {action.topic}-{action.partition}")
                writers[action.value] = operation
            elif isinstance(action, Poll) and action.records:
                log = self.logs[action.topic, action.partition]
                for offset, value in action.records:
                    log.note(offset, value, operation)
                values = [value for _, value in action.records]
                log.seen.update(values)
                if operation.isolation is Isolation.READ_COMMITTED:
                    log.seen_as_committed.update(values)
                log.highest_read = max(log.highest_read, max(offset for offset, _ in action.records))

    def _note_promises(self, operation: Operation) -> None:
        sends = [action for action in operation.actions if isinstance(action, Send)]
        if not sends or operation.outcome is Outcome.FAILED:
            return
        is_committed = operation.transaction and (
            operation.outcome is Outcome.OK
            or any(send.value in self.logs[send.topic, send.partition].seen_as_committed for send in sends)
        )
        for send in sends:
            is_acknowledged = send.offset is not None or operation.outcome is Outcome.OK
            if is_committed or (is_acknowledged and not operation.transaction):
                log = self.logs[send.topic, send.partition]
                log.promised[send.value] = operation
                if send.offset is not None:
                    log.note(send.offset, send.value, operation)

    # ------------------------------------------------------------------------------------------ each partition

    def _judge_contents(self, topic_partition: Where, log: _Log) -> None:
        for offset, others in sorted(log.conflicts.items()):
            values = [log.values[offset], *others]
            self._add("inconsistent-offsets", topic_partition, f"offset {offset} has {_name(values)}", *others.values())
        for value, others_at in log.copies.items():
            writer = log.writers.get(value)
            if writer is not None and writer.process in self._repeating:
                self.repeated += len(others_at)
                continue
            offsets = [log.offsets[value], *others_at]
            text = f"{value!r} is at offsets {_name(offsets)}"
            self._add("duplicate", topic_partition, text, *others_at.values(), value=value)

    def _judge_presence(self, topic_partition: Where, log: _Log) -> None:
        last_read = self._final.get(topic_partition)
        if last_read is None:
            for offset in sorted(log.passed_over):
                value = log.values[offset]
                if value not in log.seen:
                    self._add_lost(topic_partition, log, value)
            return
        present = {value for _, value in last_read}
        start = self._expected.starts.get(topic_partition, 0)
        for value in log.must_be_visible():
            if value in present or log.offsets.get(value, start) < start:
                continue
            if value in log.seen or log.offsets.get(value, log.highest_read) < log.highest_read:
                self._add_lost(topic_partition, log, value)
            else:
                at = f"at offset {log.offsets[value]}" if value in log.offsets else "at an unknown offset"
                text = f"{value!r} {at} was never read, the last that was is {log.highest_read}"
                self._add("unseen", topic_partition, text, log.promised[value], value=value)

    def _add_lost(self, topic_partition: Where, log: _Log, value: Hashable) -> None:
        fate = "was read and is gone" if value in log.seen else "was never read"
        text = f"{value!r} at offset {log.offsets[value]} {fate}, offset {log.highest_read} was read"
        writer = log.writers.get(value)
        self._add("lost-write", topic_partition, text, *([writer] if writer else []), value=value)

    def _judge_keys(self) -> None:
        """The latest record of each key, where the end of a compacted partition is known."""
        keyed: dict[Where, list[KeyedSend]] = {}
        for operation in self._history:
            if self._is_in_force(operation) is False:
                continue
            for send in operation.actions:
                if isinstance(send, Send) and send.key is not None and send.topic in self._expected.compacted:
                    topic_partition = (send.topic, send.partition)
                    log = self.logs[topic_partition]
                    keyed.setdefault(topic_partition, []).append(
                        KeyedSend(
                            send,
                            operation,
                            log.offsets.get(send.value, send.offset),
                            must_be_visible=log.is_visible(send.value),
                        )
                    )
        for topic_partition, sends in keyed.items():
            if topic_partition in self._final:
                self.anomalies += check_keys(topic_partition, sends, self._final[topic_partition], self._ordered)

    # ------------------------------------------------------------------------------------------ each process

    def _judge_operation(self, operation: Operation) -> None:
        polled, sent = self._polled[operation.process], self._sent[operation.process]
        touched_polls: set[Where] = set()
        touched_sends: set[Where] = set()
        for action in operation.actions:
            if isinstance(action, Assign):
                polled.clear()
                continue
            if isinstance(action, Commit):
                continue
            topic_partition = (action.topic, action.partition)
            if isinstance(action, Poll):
                touched_polls.add(topic_partition)
                self._judge_poll(topic_partition, action, operation, polled)
            elif operation.outcome is not Outcome.FAILED:
                touched_sends.add(topic_partition)
                self._judge_send(topic_partition, action, operation, sent)
        if operation.outcome is Outcome.OK:
            return
        # The client's next place is unknown: it may rewind to before its polls, and a send whose outcome is unknown may
        # still be under way.
        for topic_partition in touched_polls:
            polled.pop(topic_partition, None)
        for topic_partition in touched_sends:
            sent.pop(topic_partition, None)

    def _judge_send(
        self, topic_partition: Where, send: Send, operation: Operation, sent: dict[Where, tuple[int, Operation]]
    ) -> None:
        offset = self.logs[topic_partition].offsets.get(send.value, send.offset)
        if offset is None or operation.process in self._ordered:  # their order is judged as a whole
            return
        last = sent.get(topic_partition)
        if last is not None and offset <= last[0]:
            kind = "int-nonmonotonic-send" if last[1] is operation else "nonmonotonic-send"
            text = f"process {operation.process} sent {send.value!r} to offset {offset} after offset {last[0]}"
            self._add(kind, topic_partition, text, *_distinct(last[1], operation))
        sent[topic_partition] = (offset, operation)

    def _judge_poll(
        self, topic_partition: Where, poll: Poll, operation: Operation, polled: dict[Where, tuple[int, Operation]]
    ) -> None:
        log = self.logs[topic_partition]
        last_offset, last_operation = polled.get(topic_partition, (None, operation))
        if last_offset is None and operation.process == FINAL_PROCESS and topic_partition[0] in self._expected.gapless:
            last_offset = self._expected.starts.get(topic_partition, 0) - 1  # a final read is one from the start
        for offset, value in poll.records:
            if last_offset is not None and offset != last_offset + 1:
                self._judge_step(topic_partition, last_offset, offset, (last_operation, operation))
            writer = log.writers.get(value)
            if writer is None:
                if log.writers or self._expected.is_complete:  # else perhaps a partition that others write
                    text = f"{value!r} at offset {offset} was sent by nobody"
                    self._add("garbage-read", topic_partition, text, operation, value=value)
            elif writer.transaction or writer.outcome is Outcome.FAILED:
                self._judge_read(topic_partition, (offset, value), writer, operation)
            last_offset, last_operation = offset, operation
        if last_offset is not None:
            polled[topic_partition] = (last_offset, last_operation)

    def _judge_step(self, topic_partition: Where, low: int, high: int, operations: tuple[Operation, Operation]) -> None:
        earlier, later = operations
        prefix = "int-" if earlier is later else ""
        who = f"process {later.process}"
        if high <= low:
            text = f"{who} polled offset {high} after offset {low}"
            self._add(f"{prefix}nonmonotonic-poll", topic_partition, text, *_distinct(*operations))
        elif topic_partition[0] in self._expected.gapless:
            self._add("gap", topic_partition, f"{who} polled offset {high} after offset {low}", *_distinct(*operations))
        elif topic_partition[0] not in self._expected.compacted:
            skipped = self.logs[topic_partition].between(low, high)
            if skipped:
                self.logs[topic_partition].passed_over.update(skipped)
                text = f"{who} went from offset {low} to {high} past {_name(skipped)}"
                self._add(f"{prefix}poll-skip", topic_partition, text, *_distinct(*operations))

    def _judge_read(
        self, topic_partition: Where, record: tuple[int, Hashable], writer: Operation, reader: Operation
    ) -> None:
        """A record of a transaction, or one whose send failed."""
        is_committed_read = reader.isolation is Isolation.READ_COMMITTED
        offset, value = record
        what = f"process {reader.process} read {value!r} at offset {offset}"
        if writer.outcome is Outcome.FAILED:
            if is_committed_read or not writer.transaction:
                fate = "which was aborted" if writer.transaction else "whose send had failed"
                self._add("G1a", topic_partition, f"{what}, {fate}", *_distinct(writer, reader))
        elif is_committed_read:
            asked = writer.invoked if writer.committing is None else writer.committing
            if writer is reader or reader.completed < asked:
                text = f"{what} before its transaction asked for the commit"
                self._add("precommitted-read", topic_partition, text, *_distinct(writer, reader))
            elif reader.transaction and reader.outcome is not Outcome.FAILED:
                self._reads_from.setdefault(self._places[id(reader)], set()).add(self._places[id(writer)])

    def _judge_order(self) -> None:
        newest: dict[tuple[int, Where], tuple[int, Hashable]] = {}
        for operation in self._history:
            if operation.process not in self._ordered:
                continue
            for send in operation.actions:
                if not isinstance(send, Send):
                    continue
                topic_partition = (send.topic, send.partition)
                log = self.logs[topic_partition]
                if send.value not in log.offsets:
                    continue
                offset = min([log.offsets[send.value], *log.copies.get(send.value, ())])
                last, before = newest.get((operation.process, topic_partition), (-1, None))
                if offset <= last:
                    text = f"{send.value!r} at offset {offset} was sent after {before!r} at offset {last}"
                    self._add("reordered", topic_partition, text, operation, value=send.value)
                else:
                    newest[operation.process, topic_partition] = (offset, send.value)

    def judge_commits(self, committed: Mapping[GroupPartition, int]) -> list[Anomaly]:
        return check_commits(self._history, committed, self._is_in_force, self._ordered)

    def _is_in_force(self, operation: Operation) -> bool | None:
        """Whether the operation took effect; None if that is unknown. The records of a transaction show its fate."""
        if operation.outcome is not Outcome.UNKNOWN:
            return operation.outcome is Outcome.OK
        if not operation.transaction:
            return None
        sends = [action for action in operation.actions if isinstance(action, Send)]
        if any(send.value in self.logs[send.topic, send.partition].seen_as_committed for send in sends):
            return True
        lasting = [send for send in sends if send.topic not in self._expected.compacted]
        if not lasting or not all((send.topic, send.partition) in self._final for send in lasting):
            return None
        return False

    def _judge_cycles(self) -> None:
        for cycle in find_cycles(self._reads_from):
            members = [self._history[place] for place in cycle]
            processes = _name([operation.process for operation in members])
            self._add("G1c", None, f"transactions of processes {processes} read from each other", *members)


def _distinct(first: Operation, second: Operation) -> tuple[Operation, ...]:
    return (first,) if first is second else (first, second)


def _name(things: Sequence[Hashable]) -> str:
    named = ", ".join(repr(thing) for thing in things[:_FEW])
    return named if len(things) <= _FEW else f"{named} and {len(things) - _FEW} more"
