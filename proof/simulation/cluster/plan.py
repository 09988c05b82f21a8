"""The plans of clusters: three machines, clients of all kinds, and episodes of what goes wrong.

An episode is one fault, or several that belong together: a fault alone seldom meets the moment in which replication,
election or recovery is in the middle of something, a second one within the first does.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from proof.simulation.plan import FOLLOWER, LEADER, OUTSIDER, Fault, FaultKind, Mode, Plan

_WRITERS = ("plain", "idempotent", "idempotent", "transactional-1", "transactional-2", "shared-1", "shared-2")
_OTHERS = (
    "keyed",
    "reader",
    "committed-reader",
    "committer",
    "classic",
    "consumer",
    "classic",
    "consumer",
    "topics",
    "operator",
    "operator",
    "decommissioner",
)
# In half of the schedules beside the others.
_PIPELINING = ("librdkafka", "librdkafka", "java")
_SHORT_MS = (50, 400, 1_200)
_LONG_MS = (400, 1_500, 3_500, 8_000)
# An episode is played to its end.
_AFTER_THE_LAST_MS = 300
# The controller's machine of the moment, as often as any other.
_CONTROLLER: tuple[int, ...] = ()
_DISK_FAULTS = (FaultKind.FULL_DISK, FaultKind.FAILING_WRITES, FaultKind.FAILING_SYNC, FaultKind.FAILING_READS)

_Draw = Callable[[int, int, random.Random], tuple[Fault, ...]]


def draw_cluster_plan(seed: int, brokers: int) -> Plan:
    chance = random.Random(seed)
    duration_ms = chance.choice((2_500, 4_000, 4_000, 8_000))
    clients = [chance.choice(_WRITERS) for _ in range(chance.randint(1, 3))]
    clients += [chance.choice(_OTHERS) for _ in range(chance.randint(1, 3))]
    clients.append(chance.choice(("reader", "committed-reader")))
    faults: list[Fault] = []
    for _ in range(chance.randint(1, 4)):
        draw = chance.choices(_DRAWS, _WEIGHTS)[0]
        faults += draw(chance.randrange(duration_ms), brokers, chance)
    if chance.random() < 0.3:  # one in the midst of another
        draw = chance.choices(_DRAWS, _WEIGHTS)[0]
        faults += draw(faults[0].at_ms + chance.randrange(600), brokers, chance)
    if chance.random() < 0.5:
        clients += chance.choices(_PIPELINING, k=chance.randint(1, 2))
        if chance.random() < 0.5:
            faults += _suspension(chance.randrange(duration_ms), brokers, chance)
    if chance.random() < 0.2:
        clients.append("repeater")
        faults += _cut_off(chance.randrange(duration_ms), brokers, chance)
    faults.sort(key=lambda fault: fault.at_ms)
    duration_ms = max(duration_ms, faults[-1].at_ms + _AFTER_THE_LAST_MS)
    return Plan(seed, Mode.REPLICATED, duration_ms, tuple(clients), tuple(faults), brokers)


def _one(brokers: int, chance: random.Random) -> tuple[int, ...]:
    return chance.choice((_CONTROLLER, (LEADER,), (FOLLOWER,), (chance.randrange(brokers),)))


# ---- one fault


def _crash(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    changes = chance.choice((0, chance.randint(1, 40)))
    if chance.random() < 0.25:
        return (Fault(at_ms, FaultKind.KILL, changes, tuple(sorted(chance.sample(range(brokers), 2)))),)
    kind = chance.choice((FaultKind.KILL, FaultKind.KILL, FaultKind.POWER_CUT, FaultKind.POWER_CUT))
    return (Fault(at_ms, kind, changes, _one(brokers, chance)),)


def _emptied_disk(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    return (Fault(at_ms, FaultKind.EMPTIED_DISK, 0, _one(brokers, chance)),)


def _clean_restart(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    return (Fault(at_ms, FaultKind.CLEAN_RESTART, 0, _one(brokers, chance)),)


def _standstill(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    kind = chance.choice((FaultKind.PAUSE, FaultKind.PAUSE, FaultKind.SLOW_DISK))
    return (Fault(at_ms, kind, chance.choice(_LONG_MS), _one(brokers, chance)),)


def _cut(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    kind = chance.choice((FaultKind.CUT, FaultKind.ONE_WAY_CUT, FaultKind.RESET))
    return (Fault(at_ms, kind, chance.choice(_LONG_MS), tuple(chance.sample(range(brokers), 2))),)


def _isolation(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    return (Fault(at_ms, FaultKind.ISOLATION, chance.choice(_LONG_MS), _one(brokers, chance)),)


def _store(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    kind = chance.choice((FaultKind.STORE_CUT, FaultKind.STORE_CUT, FaultKind.STORE_RESET, FaultKind.STORE_OUTAGE))
    return (Fault(at_ms, kind, chance.choice(_SHORT_MS + _LONG_MS), _one(brokers, chance)),)


def _session(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    if chance.random() < 0.4:
        return (Fault(at_ms, FaultKind.EXPIRY, 0, _one(brokers, chance)),)
    return (Fault(at_ms, FaultKind.LOST_ANSWER, chance.choice((0, 1)), _one(brokers, chance)),)


def _at_write(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    kind = chance.choice((FaultKind.KILL_AT_WRITE, FaultKind.PAUSE_AT_WRITE))
    return (Fault(at_ms, kind, chance.choice((0, 1)), chance.choice((_CONTROLLER, _one(brokers, chance)))),)


def _clock(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    jump_ms = chance.choice((-3_600_000, -500, 700, 20_000, 3_600_000))
    return (Fault(at_ms, FaultKind.CLOCK_JUMP, jump_ms, _one(brokers, chance)),)


def _slow_network(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    return (Fault(at_ms, FaultKind.SLOW_NETWORK, chance.choice((500, 3_000))),)


# ---- several that belong together


def _failing_disk(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """A broker serves what was on a failed disk again after its next start."""
    length_ms = chance.choice((10, 200, 2_000))
    place = (chance.randrange(brokers),)
    return (
        Fault(at_ms, chance.choice(_DISK_FAULTS), length_ms, place),
        Fault(at_ms + chance.randrange(1_500), FaultKind.KILL, 0, place),
    )


def _comeback(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """A follower is away for a while. When it is in sync again, or has just left, those that stayed go."""
    kind = chance.choice((FaultKind.PAUSE, FaultKind.ISOLATION, FaultKind.KILL, FaultKind.CUT))
    length_ms = 0 if kind is FaultKind.KILL else chance.choice((900, 1_500, 3_500))
    machines = (FOLLOWER, LEADER) if kind is FaultKind.CUT else (FOLLOWER,)
    armed = chance.choice((FaultKind.KILL_AT_JOIN, FaultKind.KILL_AT_JOIN, FaultKind.KILL_AT_LEAVE))
    return Fault(at_ms, kind, length_ms, machines), Fault(at_ms + 1, armed, chance.choice((1, 2)))


def _failovers(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """One leader after the other, before replicas have agreed on what the last one left (KIP-101, KIP-279)."""
    faults = []
    for _ in range(chance.randint(2, 4)):
        kind = chance.choice((FaultKind.KILL, FaultKind.KILL, FaultKind.PAUSE, FaultKind.EXPIRY))
        length_ms = chance.choice((300, 2_800)) if kind is FaultKind.PAUSE else 0
        faults.append(Fault(at_ms, kind, length_ms, (LEADER,)))
        at_ms += chance.choice((20, 150, 600, 2_700))
    return tuple(faults)


def _zombie(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """A leader that does not hear of its successor, and comes back when that one goes."""
    kind = chance.choice((FaultKind.ISOLATION, FaultKind.PAUSE, FaultKind.STORE_CUT))
    length_ms = chance.choice((2_800, 4_000, 8_000))
    back_ms = at_ms + length_ms + chance.choice((-300, -20, 5, 60, 400))
    second = chance.choice((FaultKind.KILL, FaultKind.KILL, FaultKind.ISOLATION))
    return Fault(at_ms, kind, length_ms, (LEADER,)), Fault(
        back_ms, second, 0 if second is FaultKind.KILL else 900, (LEADER,)
    )


def _unheard(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """The last in-sync follower has records without hearing that they are committed, and leads; one that was away for
    longer comes back then (KAFKA-7128).
    """
    away_ms = chance.choice((900, 1_500))
    cut_ms = at_ms + away_ms - chance.choice((20, 120, 250))
    return (
        Fault(at_ms, chance.choice((FaultKind.PAUSE, FaultKind.ISOLATION)), away_ms, (FOLLOWER,)),
        Fault(cut_ms - 250, FaultKind.SLOW_NETWORK, 450),  # so that something is under way
        Fault(cut_ms, FaultKind.ONE_WAY_CUT, 900, (LEADER, FOLLOWER)),
        Fault(cut_ms + chance.choice((100, 240, 450)), FaultKind.KILL, 0, (LEADER,)),
    )


def _deposed(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """A controller that stands still in the middle of a write, while something else asks for changes."""
    away = Fault(at_ms + chance.randrange(300), FaultKind.KILL, 0, (FOLLOWER,))
    return Fault(at_ms, FaultKind.PAUSE_AT_WRITE, chance.choice((0, 1))), away


def _moved(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """A broker that a move concerns goes when the move begins or ends, and perhaps another one when the next does."""
    return tuple(
        Fault(at_ms + number * chance.choice((1, 40, 400)), FaultKind.KILL_AT_MOVE)
        for number in range(chance.randint(1, 3))
    )


def _rolling(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    gap_ms = chance.choice((300, 1_200))
    return tuple(Fault(at_ms + place * gap_ms, FaultKind.CLEAN_RESTART, 0, (place,)) for place in range(brokers))


def _last_one(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """Followers go one after the other, the leader last; or one that is behind is there before the others."""
    gap_ms = chance.choice((30, 700, 2_600))
    last = Fault(at_ms + 2 * gap_ms, FaultKind.KILL, 0, (chance.choice((LEADER, OUTSIDER)),))
    return (
        Fault(at_ms, FaultKind.KILL, 0, (FOLLOWER,)),
        Fault(at_ms + gap_ms, FaultKind.KILL, 0, (FOLLOWER,)),
        last,
    )


def _lonely_pause(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """The store is away for all while one machine stands still, mostly for longer than leases last."""
    pause_ms = chance.choice(_LONG_MS)
    outage_ms = pause_ms + chance.choice((0, 1_500, 6_000))
    pause_at_ms = at_ms + chance.choice((0, 1_000, 3_000))
    return (
        Fault(at_ms, FaultKind.STORE_OUTAGE, outage_ms, (0,)),
        Fault(pause_at_ms, FaultKind.PAUSE, pause_ms, _one(brokers, chance)),
    )


def _suspension(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """The store is away for all, and a machine stands still for some seconds. The other leaders hear of nobody, stop,
    and lead again in the same epoch when the machine goes on: producers with requests in flight meet both moments.
    """
    pause_at_ms = at_ms + chance.choice((0, 500, 1_500))
    return (
        Fault(at_ms, FaultKind.STORE_OUTAGE, chance.choice((7_000, 10_000)), (0,)),
        Fault(pause_at_ms, FaultKind.PAUSE, chance.choice((2_500, 3_500, 5_000)), (chance.randrange(brokers),)),
    )


def _cut_off(at_ms: int, brokers: int, chance: random.Random) -> tuple[Fault, ...]:
    """A machine that only clients reach, or one that stands still: another one leads what it led, and the first one
    remembers what was true before.
    """
    place, length_ms = chance.randrange(brokers), chance.choice((3_500, 6_000))
    if chance.random() < 0.5:
        return (Fault(at_ms, FaultKind.PAUSE, length_ms, (place,)),)
    cuts = [Fault(at_ms, FaultKind.CUT, length_ms, (place, other)) for other in range(brokers) if other != place]
    return Fault(at_ms, FaultKind.STORE_CUT, length_ms, (place,)), *cuts


_EPISODES: dict[_Draw, int] = {
    _crash: 6,
    _emptied_disk: 2,
    _clean_restart: 1,
    _standstill: 3,
    _cut: 4,
    _isolation: 2,
    _store: 3,
    _session: 3,
    _at_write: 3,
    _clock: 1,
    _slow_network: 1,
    _failing_disk: 2,
    _comeback: 6,
    _failovers: 4,
    _zombie: 3,
    _unheard: 3,
    _deposed: 2,
    _moved: 3,
    _rolling: 1,
    _last_one: 2,
    _lonely_pause: 2,
}
_DRAWS, _WEIGHTS = tuple(_EPISODES), tuple(_EPISODES.values())
