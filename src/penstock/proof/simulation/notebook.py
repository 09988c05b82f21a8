"""What happened in a schedule: the trace, the history for the checker, and what else is to be compared at the end."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from penstock.proof.simulation.world import World
from penstock.testing.history import Action, Assign, Commit, Isolation, Operation, Outcome, Send

Partition = tuple[str, int]


@dataclass(slots=True)
class Attempt:
    """A client's attempt to change something, from the moment of the request until it knows the outcome."""

    invoked: int
    completed: int = 0
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class SendAttempt(Attempt):
    process: int = 0
    sends: list[Send] = field(default_factory=list)
    keyed: list[KeyedSend] = field(default_factory=list)
    commits: list[CommitAttempt] = field(default_factory=list)
    transaction: bool = False
    committing: int | None = None


@dataclass(slots=True)
class KeyedSend:
    """A record for the compacted topic; a tombstone has no value."""

    partition: Partition
    key: str
    value: str | None
    offset: int | None
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class CommitAttempt(Attempt):
    group: str = ""
    partition: Partition = ("", 0)
    offset: int = 0


@dataclass(slots=True)
class Holding:
    """A member's belief that it owns a partition, good until the lease ends."""

    member: str
    lease_ends_ms: float


class Notebook:
    def __init__(self, world: World, *, is_strict: bool = True) -> None:
        """Not strict: what was acknowledged may be lost, and so who owns what may be told twice."""
        self._world = world
        self._is_strict = is_strict
        self._position = 0
        self.trace: list[str] = []
        self.failures: list[str] = []
        self.polls: list[Operation] = []
        self.attempts: list[SendAttempt] = []
        self.commits: list[CommitAttempt] = []
        self.generations: dict[tuple[str, int], dict[Partition, str]] = {}
        self.holdings: dict[tuple[str, Partition], Holding] = {}
        self.found_offsets: dict[tuple[str, Partition], int] = {}
        self.power_cuts = 0
        self.requests = 0
        self.crashes = 0
        self.cleanings = 0

    def position(self) -> int:
        """The next place in the one order of all events."""
        self._position += 1
        return self._position

    def note(self, who: str, text: str) -> None:
        self.trace.append(f"{self._world.time_ms:10.3f} {who}: {text}")

    def fail(self, text: str) -> None:
        self.failures.append(text)
        self.note("FAILURE", text)

    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    # ---- sends and polls

    def begin_send(self, process: int, *, transaction: bool = False) -> SendAttempt:
        attempt = SendAttempt(self.position(), process=process, transaction=transaction)
        self.attempts.append(attempt)
        return attempt

    def end_send(self, attempt: SendAttempt, outcome: Outcome) -> None:
        attempt.outcome = outcome
        attempt.completed = self.position()
        for keyed in attempt.keyed:
            keyed.outcome = outcome
        for commit in attempt.commits:
            commit.outcome, commit.completed = outcome, attempt.completed

    def polled(self, process: int, isolation: Isolation, invoked: int, actions: tuple[Action, ...]) -> None:
        self.polls.append(
            Operation(process, Outcome.OK, actions, isolation=isolation, invoked=invoked, completed=self.position())
        )

    def forget_unpromised(self) -> None:
        """The power failed. What had been read before it was acknowledged may be gone, which nobody promised not to be:
        readers of a broker without copies see records before they are synced.
        """
        self.power_cuts += 1
        promised = {send.value for attempt in self.attempts for send in attempt.sends if send.offset is not None}
        uncertain: set[tuple[int, Partition]] = set()  # where a process has gone past such a record

        def kept(process: int, action: Action) -> Action:
            if isinstance(action, Assign):
                uncertain.difference_update({(process, where) for where in action.partitions})
                return action
            if isinstance(action, Send | Commit):
                return action
            place = process, (action.topic, action.partition)
            records = []
            for row in action.records:
                if row[1] not in promised:
                    uncertain.add(place)
                if place not in uncertain:
                    records.append(row)
            return replace(action, records=tuple(records))

        self.polls = [
            replace(each, actions=tuple(kept(each.process, action) for action in each.actions)) for each in self.polls
        ]

    def history(self) -> list[Operation]:
        sends = [
            Operation(
                attempt.process,
                attempt.outcome,
                tuple(attempt.sends),
                attempt.transaction,
                invoked=attempt.invoked,
                completed=attempt.completed or self.position(),
                committing=attempt.committing,
            )
            for attempt in self.attempts
            if attempt.sends
        ]
        return sorted([*sends, *self.polls], key=lambda operation: operation.completed)

    # ---- groups

    def begin_commit(self, group: str, partition: Partition, offset: int) -> CommitAttempt:
        commit = CommitAttempt(self.position(), group=group, partition=partition, offset=offset)
        self.commits.append(commit)
        return commit

    def end_commit(self, commit: CommitAttempt, outcome: Outcome) -> None:
        commit.outcome, commit.completed = outcome, self.position()

    def assigned(self, group: str, generation: int, member: str, partitions: list[Partition]) -> None:
        """A classic member was told what it owns in a generation."""
        owners = self.generations.setdefault((group, generation), {})
        for partition in partitions:
            owner = owners.setdefault(partition, member)
            if owner != member and self._is_strict:
                self.fail(f"{partition} belongs to {owner} and to {member} in generation {generation} of {group}")

    def take(self, group: str, partition: Partition, member: str, lease_ends_ms: float) -> None:
        holding = self.holdings.get((group, partition))
        is_held = holding is not None and holding.member != member and holding.lease_ends_ms > self._world.time_ms
        if holding is not None and is_held and self._is_strict:
            self.fail(f"{member} of {group} was given {partition}, which {holding.member} still holds")
        self.holdings[group, partition] = Holding(member, lease_ends_ms)

    def release(self, group: str, partition: Partition, member: str) -> None:
        holding = self.holdings.get((group, partition))
        if holding is not None and holding.member == member:
            del self.holdings[group, partition]
