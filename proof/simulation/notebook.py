"""What happened in a schedule: the trace, the history for the checker, and what else is to be compared at the end."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from penstock.testing.history import Action, Assign, Commit, GroupPartition, Isolation, Operation, Outcome, Send
from proof.simulation.world import World

Partition = tuple[str, int]


@dataclass(slots=True)
class Attempt:
    """What a client asks for in one go (records, offsets to commit, both in a transaction), and what it knows of it."""

    process: int
    invoked: int
    transaction: bool = False
    actions: list[Send | Commit] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN
    completed: int = 0
    committing: int | None = None

    @property
    def sends(self) -> list[Send]:
        return [action for action in self.actions if isinstance(action, Send)]

    def number_sends(self, count: int, offset: int) -> None:
        """The last `count` actions are sends that were acknowledged from `offset` on."""
        for place in range(-count, 0):
            send = self.actions[place]
            assert isinstance(send, Send)
            self.actions[place] = replace(send, offset=offset + count + place)


@dataclass(slots=True)
class Holding:
    """A member's belief that it owns a partition, good until the lease ends."""

    member: str
    lease_ends_ms: float


class Notebook:
    def __init__(self, world: World, *, is_strict: bool = True) -> None:
        """Not strict: acknowledged records may be lost, so two members may be told that they own the same partition."""
        self._world = world
        self._is_strict = is_strict
        self._position = 0
        self.trace: list[str] = []
        self.failures: list[str] = []
        self.polls: list[Operation] = []
        self.attempts: list[Attempt] = []
        self.generations: dict[tuple[str, int], dict[Partition, str]] = {}
        self.holdings: dict[tuple[str, Partition], Holding] = {}
        self.committed_offsets: dict[GroupPartition, int] = {}
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

    # ---- the history

    def begin(self, process: int, *actions: Send | Commit, transaction: bool = False) -> Attempt:
        attempt = Attempt(process, self.position(), transaction, list(actions))
        self.attempts.append(attempt)
        return attempt

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.outcome, attempt.completed = outcome, self.position()

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
                uncertain.difference_update({(process, topic_partition) for topic_partition in action.partitions})
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
        """What clients asked for, what they were told, what they read."""
        asked = [
            Operation(
                attempt.process,
                attempt.outcome,
                tuple(attempt.actions),
                attempt.transaction,
                invoked=attempt.invoked,
                completed=attempt.completed or self.position(),
                committing=attempt.committing,
            )
            for attempt in self.attempts
            if attempt.actions
        ]
        return sorted([*asked, *self.polls], key=lambda operation: operation.completed)

    def unpromised_history(self) -> list[Operation]:
        """The sends alone, as if nothing had been promised about any of them."""
        return [
            Operation(attempt.process, Outcome.UNKNOWN, (replace(send, offset=None),))
            for attempt in self.attempts
            for send in attempt.sends
        ]

    def committed_places(self) -> list[GroupPartition]:
        """Every group and partition for which anybody tried to commit an offset."""
        actions = (action for attempt in self.attempts for action in attempt.actions)
        return list(dict.fromkeys(action.place for action in actions if isinstance(action, Commit)))

    # ---- groups

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
