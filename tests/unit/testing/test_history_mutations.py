"""A good history of a log in memory is sound; with one thing in it made wrong at random, exactly that is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.testing.history import Action, Assign, Isolation, Operation, Outcome, Poll, Send, Where
from penstock.testing.history_check import check

Thing = TypeVar("Thing")
STEPS = 120
WHERES: list[Where] = [("t", 0), ("t", 1), ("u", 0)]


@dataclass
class Entry:
    offset: int
    value: int
    state: str  # open, committed or aborted


@dataclass
class Transaction:
    process: int
    invoked: int
    actions: list[Action] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


class LogInMemory:
    """Does everything right, and takes down its history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.history: list[Operation] = []
        self.time = 0
        self.values = 0
        self.entries: dict[Where, list[Entry]] = {where: [] for where in WHERES}
        self.ends = dict.fromkeys(WHERES, 0)
        self.positions: dict[tuple[int, Where], int] = {}
        self.open: dict[int, Transaction] = {}
        for _ in range(STEPS):
            self.random.choice((self.send, self.transact, self.transact, self.poll, self.poll, self.move))()
        for process in list(self.open):
            self.finish(process)
        self.final: dict[Where, list[tuple[int, Hashable]]] = {
            where: [(entry.offset, entry.value) for entry in entries if entry.state == "committed"]
            for where, entries in self.entries.items()
        }

    def tick(self) -> int:
        self.time += 1
        return self.time

    def append(self, where: Where, state: str) -> tuple[Entry, Send]:
        self.values += 1
        entry = Entry(self.ends[where], self.values, state)
        self.ends[where] += 1
        self.entries[where].append(entry)
        return entry, Send(*where, entry.value, entry.offset)

    def send(self) -> None:
        invoked = self.tick()
        where = self.random.choice(WHERES)
        sends = [self.append(where, "committed")[1] for _ in range(self.random.randint(1, 4))]
        outcome = Outcome.OK
        if self.random.random() < 0.1:
            outcome, sends = Outcome.UNKNOWN, [replace(send, offset=None) for send in sends]
        process = self.random.choice((1, 2))
        self.history.append(Operation(process, outcome, tuple(sends), invoked=invoked, completed=self.tick()))

    def transact(self) -> None:
        process = self.random.choice((3, 4, 5))
        if process not in self.open:
            self.open[process] = Transaction(process, self.tick())
            if process == 5:  # reads, too
                self.open[process].actions += self.read(process, Isolation.READ_COMMITTED)
        elif self.random.random() < 0.6:
            transaction = self.open[process]
            entry, send = self.append(self.random.choice(WHERES), "open")
            transaction.entries.append(entry)
            transaction.actions.append(send)
        else:
            self.finish(process)

    def finish(self, process: int) -> None:
        transaction = self.open.pop(process)
        is_commit = self.random.random() < 0.7
        committing = self.tick() if is_commit else None
        for entry in transaction.entries:
            entry.state = "committed" if is_commit else "aborted"
        for where in {(each.topic, each.partition) for each in transaction.actions if isinstance(each, Send)}:
            self.ends[where] += 1  # the marker
        outcome = Outcome.OK if is_commit else Outcome.FAILED
        if self.random.random() < 0.1:
            outcome = Outcome.UNKNOWN
        completed, actions = self.tick(), tuple(transaction.actions)
        isolation = Isolation.READ_COMMITTED
        self.history.append(
            Operation(process, outcome, actions, True, isolation, transaction.invoked, completed, committing)
        )
        if not is_commit or outcome is not Outcome.OK:
            for where in WHERES:  # goes back to the start, which nobody has to note after an operation that failed
                self.positions.pop((process, where), None)
            self.history.append(
                Operation(process, Outcome.OK, (Assign(frozenset(WHERES)),), invoked=self.tick(), completed=self.tick())
            )

    def poll(self) -> None:
        process = self.random.choice((6, 7))
        isolation = Isolation.READ_COMMITTED if process == 6 else Isolation.READ_UNCOMMITTED
        invoked = self.tick()
        polls = self.read(process, isolation)
        self.history.append(
            Operation(process, Outcome.OK, polls, isolation=isolation, invoked=invoked, completed=self.tick())
        )

    def read(self, process: int, isolation: Isolation) -> tuple[Poll, ...]:
        polls = []
        for where in WHERES:
            entries = self.entries[where]
            visible = entries
            if isolation is Isolation.READ_COMMITTED:
                stable = next((entry.offset for entry in entries if entry.state == "open"), self.ends[where])
                visible = [entry for entry in entries if entry.offset < stable and entry.state == "committed"]
            position = self.positions.get((process, where), 0)
            found = [entry for entry in visible if entry.offset >= position][: self.random.randint(1, 6)]
            if found:
                self.positions[process, where] = found[-1].offset + 1
                polls.append(Poll(*where, tuple((entry.offset, entry.value) for entry in found)))
        return tuple(polls)

    def move(self) -> None:
        process = self.random.choice((6, 7))
        for where in WHERES:
            self.positions[process, where] = self.random.randint(0, self.ends[where])
        moved = Assign(frozenset(WHERES))
        self.history.append(Operation(process, Outcome.OK, (moved,), invoked=self.tick(), completed=self.tick()))

    # ------------------------------------------------------------------------------------------ for mutations

    def actions(self) -> Iterator[tuple[int, int, Operation, Action]]:
        for place, operation in enumerate(self.history):
            for index, action in enumerate(operation.actions):
                yield place, index, operation, action

    def committed_polls(self, least: int) -> list[tuple[int, int, Operation, Poll]]:
        return [
            (place, index, operation, action)
            for place, index, operation, action in self.actions()
            if isinstance(action, Poll)
            and operation.isolation is Isolation.READ_COMMITTED
            and operation.outcome is Outcome.OK
            and len(action.records) >= least
        ]

    def change(self, place: int, index: int, action: Action) -> None:
        actions = list(self.history[place].actions)
        actions[index] = action
        self.history[place] = replace(self.history[place], actions=tuple(actions))

    def map_records(self, where: Where, change: Callable[[int, Hashable], tuple[int, Hashable] | None]) -> None:
        """In all polls and in the final read; None leaves the record out."""

        def changed(records: object) -> Iterator[tuple[int, Hashable]]:
            assert isinstance(records, tuple | list)
            yield from (new for offset, value in records if (new := change(offset, value)) is not None)

        for place, index, _, action in list(self.actions()):
            if isinstance(action, Poll) and (action.topic, action.partition) == where:
                self.change(place, index, replace(action, records=tuple(changed(action.records))))
        self.final[where] = list(changed(self.final[where]))

    def promised(self) -> list[tuple[Operation, Send]]:
        return [
            (operation, action)
            for _, _, operation, action in self.actions()
            if isinstance(action, Send) and operation.outcome is Outcome.OK
        ]

    def pick(self, things: list[Thing]) -> Thing:
        assume(things)
        return self.random.choice(things)


# ---------------------------------------------------------------------------------------------------- mutations


def lose(log: LogInMemory) -> None:
    _, send = log.pick(log.promised())
    where = (send.topic, send.partition)
    assume(log.final[where][-1][0] > (send.offset or 0))
    log.map_records(where, lambda offset, value: None if value == send.value else (offset, value))


def hide_the_last(log: LogInMemory) -> None:
    _, send = log.pick(log.promised())
    where, end = (send.topic, send.partition), send.offset or 0
    log.map_records(where, lambda offset, value: None if offset >= end else (offset, value))


def copy_a_record(log: LogInMemory) -> None:
    where = log.pick([where for where, records in log.final.items() if records])
    log.final[where].append((log.ends[where] + 10, log.random.choice(log.final[where])[1]))


def change_a_value(log: LogInMemory) -> None:
    place, index, _, poll = log.pick(log.committed_polls(1))
    number = log.random.randrange(len(poll.records))
    records = list(poll.records)
    others = [value for _, value in log.final[poll.topic, poll.partition] if value != records[number][1]]
    records[number] = (records[number][0], log.pick(others))
    log.change(place, index, replace(poll, records=tuple(records)))


def swap_sends(log: LogInMemory, is_internal: bool) -> None:
    """Two sends of one process that follow each other in a partition get each other's offsets, everywhere."""
    pairs: list[tuple[Send, Send]] = []
    last: dict[tuple[int, Where], tuple[Operation, Send] | None] = {}
    for operation in log.history:
        for action in operation.actions:
            if isinstance(action, Send) and operation.outcome is not Outcome.FAILED:
                key = (operation.process, (action.topic, action.partition))
                earlier = last.get(key)
                last[key] = (operation, action) if operation.outcome is Outcome.OK else None
                if earlier and last[key] and (earlier[0] is operation) is is_internal:
                    pairs.append((earlier[1], action))
    first, second = log.pick(pairs)
    swapped = {first: replace(first, offset=second.offset), second: replace(second, offset=first.offset)}
    for place, index, _, action in list(log.actions()):
        if isinstance(action, Send) and action in swapped:
            log.change(place, index, swapped[action])
    values = {first.value: second.value, second.value: first.value}
    log.map_records((first.topic, first.partition), lambda offset, value: (offset, values.get(value, value)))


def poll_again(log: LogInMemory) -> None:
    place, _, operation, poll = log.pick(log.committed_polls(1))
    assume(not operation.transaction)
    log.history.insert(place + 1, replace(operation, actions=(poll,)))


def poll_backwards(log: LogInMemory) -> None:
    place, index, _, poll = log.pick(log.committed_polls(2))
    log.change(place, index, replace(poll, records=poll.records[::-1]))


def forget_the_last_polled(log: LogInMemory) -> None:
    """What one operation polled last is gone, and the next one goes on behind it."""
    pairs: list[tuple[int, int, Poll]] = []
    last: dict[tuple[int, Where], tuple[int, int, Poll]] = {}
    for place, index, operation, action in log.actions():
        if isinstance(action, Poll) and operation.process == 6:
            key = (operation.process, (action.topic, action.partition))
            if key in last and len(last[key][2].records) > 1:
                pairs.append(last[key])
            last[key] = (place, index, action)
        elif isinstance(action, Assign) and operation.process == 6:
            last.clear()
    place, index, poll = log.pick(pairs)
    log.change(place, index, replace(poll, records=poll.records[:-1]))


def leave_out_a_polled_record(log: LogInMemory) -> None:
    place, index, _, poll = log.pick(log.committed_polls(3))
    gap = log.random.randrange(1, len(poll.records) - 1)
    log.change(place, index, replace(poll, records=poll.records[:gap] + poll.records[gap + 1 :]))


def show_an_aborted_record(log: LogInMemory) -> None:
    aborted = [
        action
        for _, _, operation, action in log.actions()
        if isinstance(action, Send) and operation.outcome is Outcome.FAILED
    ]
    send = log.pick(aborted)
    where = (send.topic, send.partition)
    assert send.offset is not None
    log.final[where] = sorted([*log.final[where], (send.offset, send.value)], key=lambda record: record[0])


def commit_too_late(log: LogInMemory) -> None:
    writers = {send.value: operation for operation, send in log.promised() if operation.transaction}
    reads = [
        (operation, writers[value])
        for _, _, operation, poll in log.committed_polls(1)
        for _, value in poll.records
        if value in writers
    ]
    reader, writer = log.pick(reads)
    place = log.history.index(writer)
    log.history[place] = replace(writer, committing=reader.completed + 1, completed=reader.completed + 2)


def read_in_a_circle(log: LogInMemory) -> None:
    writers = {send.value: operation for operation, send in log.promised() if operation.transaction}
    reads = [
        (operation, writers[value])
        for _, _, operation, poll in log.committed_polls(1)
        for _, value in poll.records
        if value in writers and operation in writers.values()
    ]
    reader, writer = log.pick(reads)
    send = next(action for action in reader.actions if isinstance(action, Send))
    assert send.offset is not None
    back = Poll(send.topic, send.partition, ((send.offset, send.value),))
    place = log.history.index(writer)
    log.history[place] = replace(writer, actions=(*writer.actions, back), completed=log.time)


def invent_a_value(log: LogInMemory) -> None:
    where = log.pick([where for where, records in log.final.items() if records])
    log.final[where].append((log.ends[where] + 10, -1))


MUTATIONS: dict[str, Callable[[LogInMemory], None]] = {
    "lost-write": lose,
    "unseen": hide_the_last,
    "duplicate": copy_a_record,
    "inconsistent-offsets": change_a_value,
    "nonmonotonic-send": lambda log: swap_sends(log, is_internal=False),
    "int-nonmonotonic-send": lambda log: swap_sends(log, is_internal=True),
    "nonmonotonic-poll": poll_again,
    "int-nonmonotonic-poll": poll_backwards,
    "poll-skip": forget_the_last_polled,
    "int-poll-skip": leave_out_a_polled_record,
    "G1a": show_an_aborted_record,
    "precommitted-read": commit_too_late,
    "G1c": read_in_a_circle,
    "garbage-read": invent_a_value,
}
SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_history_is_sound_when_the_log_does_everything_right(seed: int) -> None:
    log = LogInMemory(seed)
    assert str(check(log.history, final=log.final)).endswith("no anomaly")
    assert check(log.history).is_sound


@pytest.mark.parametrize("kind", MUTATIONS)
@given(seed=SEEDS)
def test_anomaly_is_found_when_a_good_history_is_made_wrong(kind: str, seed: int) -> None:
    log = LogInMemory(seed)
    MUTATIONS[kind](log)
    assert kind in check(log.history, final=log.final).count_kinds()
