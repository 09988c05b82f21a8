"""A schedule's plan: its clients, its faults and their moments. Drawn from a seed, or written down for a scenario."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass


class Mode(enum.Enum):
    """What the broker promises, and so what may go wrong."""

    KILLED = "killed"  # nothing is flushed; processes are killed, the machine lives: everything written is kept
    FLUSHED = "flushed"  # everything is flushed before it is acknowledged; the power may fail, too
    # Of several brokers; nothing is flushed. Processes are killed, the power of one machine at a time fails: what was
    # acknowledged by all in-sync replicas, or read, is kept.
    REPLICATED = "replicated"
    LOOSE = "loose"  # nothing is flushed and the power may fail: what is served must be sane, not complete


class FaultKind(enum.Enum):
    KILL = "kill"
    POWER_CUT = "power cut"
    CLEAN_RESTART = "clean restart"
    CLOCK_JUMP = "clock jump"
    FULL_DISK = "full disk"
    FAILING_WRITES = "failing writes"
    FAILING_SYNC = "failing sync"
    FAILING_READS = "failing reads"
    SLOW_NETWORK = "slow network"
    # Among several machines.
    POWER_CUT_OF_ALL = "power cut of all"  # whatever the others have: nothing is promised then
    PAUSE = "pause"
    SLOW_DISK = "slow disk"
    CUT = "cut"  # between two machines
    ONE_WAY_CUT = "one-way cut"  # from the first machine to the second
    RESET = "reset"  # of all connections between two machines
    ISOLATION = "isolation"  # from the other machines, the store and the clients
    STORE_CUT = "store cut"
    STORE_RESET = "store reset"
    STORE_OUTAGE = "store outage"  # for all
    EXPIRY = "expiry"  # of the machine's session
    LOST_ANSWER = "lost answer"  # of the store, to the next change
    KILL_AT_WRITE = "kill at write"
    PAUSE_AT_WRITE = "pause at write"
    EMPTIED_DISK = "emptied disk"  # the machine comes back under the same id
    # Of the leader, when an in-sync set grows or shrinks next; with 2, of every other member that was in it before.
    KILL_AT_JOIN = "kill at join"
    KILL_AT_LEAVE = "kill at leave"
    # When the next reassignment begins, or ends: of the leader, or of those that come or leave.
    KILL_AT_MOVE = "kill at move"


# In place of a machine, that of the moment: of the first partition's leader, of an in-sync follower of it, of a replica
# that is not in sync, if there is one.
LEADER, FOLLOWER, OUTSIDER = -1, -2, -3


@dataclass(frozen=True)
class Fault:
    """`length_ms` is for how long; for a clock jump, by how much, backwards if it is negative; for a crash it counts
    the changes of files that are still made: the last one is where it happens, and 0 is at once. For a change of the
    store, 0 is just before it. `machines` are those concerned, among several, or roles; without any, the controller's
    of the moment.
    """

    at_ms: int
    kind: FaultKind
    length_ms: int = 0
    machines: tuple[int, ...] = ()

    def __repr__(self) -> str:
        machines = f", {self.machines}" if self.machines else ""
        return f"Fault({self.at_ms}, {self.kind}, {self.length_ms}{machines})"


@dataclass(frozen=True)
class Plan:
    """Printed as the code that makes it."""

    seed: int
    mode: Mode
    duration_ms: int
    clients: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    brokers: int = 1

    def __repr__(self) -> str:
        brokers = f", brokers={self.brokers}" if self.brokers > 1 else ""
        return f"Plan({self.seed}, {self.mode}, {self.duration_ms}, {self.clients}, {self.faults}{brokers})"


_WRITERS = ("plain", "idempotent", "transactional-1", "transactional-2", "shared-1", "shared-2")
_OTHERS = (
    "keyed",
    "keyed",
    "reader",
    "committed-reader",
    "committer",
    "classic",
    "consumer",
    "classic",
    "consumer",
    "brief",
    "topics",
)
_CRASHES = {
    Mode.KILLED: (FaultKind.KILL, FaultKind.KILL, FaultKind.CLEAN_RESTART),
    Mode.FLUSHED: (FaultKind.POWER_CUT, FaultKind.POWER_CUT, FaultKind.KILL, FaultKind.CLEAN_RESTART),
    Mode.LOOSE: (FaultKind.POWER_CUT, FaultKind.KILL, FaultKind.CLEAN_RESTART),
}
_DISK_FAULTS = (
    FaultKind.FULL_DISK,
    FaultKind.FAILING_WRITES,
    FaultKind.FAILING_SYNC,
    FaultKind.FAILING_READS,
)


def draw_plan(seed: int) -> Plan:
    chance = random.Random(seed)
    mode = chance.choice((Mode.KILLED, Mode.FLUSHED, Mode.FLUSHED, Mode.LOOSE))
    duration_ms = chance.choice((1_000, 2_500, 2_500, 6_000))
    clients = [chance.choice(_WRITERS) for _ in range(chance.randint(1, 3))]
    clients += [chance.choice(_OTHERS) for _ in range(chance.randint(1, 4))]
    clients.append(chance.choice(("reader", "committed-reader")))
    faults: list[Fault] = []
    for _ in range(chance.randint(0, 4)):
        at_ms = chance.randrange(duration_ms)
        if chance.random() < 0.7:
            faults.append(_draw_crash(at_ms, mode, chance))
        elif chance.random() < 0.5:
            faults.append(Fault(at_ms, chance.choice(_DISK_FAULTS), chance.choice((10, 200, 2_000))))
            faults.append(_draw_crash(at_ms + chance.randrange(4_000), mode, chance))
        else:
            faults.append(Fault(at_ms, FaultKind.CLOCK_JUMP, chance.choice((-3_600_000, -500, 700, 20_000, 3_600_000))))
    if chance.random() < 0.3:
        faults.append(Fault(chance.randrange(duration_ms), FaultKind.SLOW_NETWORK, chance.choice((500, 3_000))))
    return Plan(seed, mode, duration_ms, tuple(clients), tuple(sorted(faults, key=lambda fault: fault.at_ms)))


def _draw_crash(at_ms: int, mode: Mode, chance: random.Random) -> Fault:
    kind = chance.choice(_CRASHES[mode])
    changes = 0 if kind is FaultKind.CLEAN_RESTART else chance.choice((0, chance.randint(1, 40)))
    return Fault(at_ms, kind, changes)
