"""The plans of clusters: three machines, clients of all kinds, and faults that come one after the other or together."""

from __future__ import annotations

import random
from collections.abc import Callable

from penstock.proof.simulation.plan import Fault, FaultKind, Mode, Plan

_WRITERS = ("plain", "idempotent", "idempotent", "transactional-1", "transactional-2", "shared-1", "shared-2")
_OTHERS = ("keyed", "reader", "committed-reader", "committer", "classic", "consumer", "classic", "consumer", "topics")
_SHORT_MS = (50, 400, 1_200)
_LONG_MS = (400, 1_500, 3_500, 8_000)
# The controller's machine of the moment, as often as any other.
_CONTROLLER: tuple[int, ...] = ()

_Draw = Callable[[int, int, random.Random], Fault]


def draw_cluster_plan(seed: int, brokers: int) -> Plan:
    chance = random.Random(seed)
    duration_ms = chance.choice((3_000, 6_000, 6_000, 12_000))
    clients = [chance.choice(_WRITERS) for _ in range(chance.randint(1, 3))]
    clients += [chance.choice(_OTHERS) for _ in range(chance.randint(1, 3))]
    clients.append(chance.choice(("reader", "committed-reader")))
    faults = [_draw_fault(chance.randrange(duration_ms), brokers, chance) for _ in range(chance.randint(1, 5))]
    if faults and chance.random() < 0.4:  # a second fault in the midst of a first
        faults.append(_draw_fault(faults[0].at_ms + chance.randrange(600), brokers, chance))
    if chance.random() < 0.15:
        faults += _draw_lonely_pause(chance.randrange(duration_ms), brokers, chance)
    faults.sort(key=lambda fault: fault.at_ms)
    return Plan(seed, Mode.REPLICATED, duration_ms, tuple(clients), tuple(faults), brokers)


def _draw_fault(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    return chance.choices(_DRAWS, _WEIGHTS)[0](at_ms, brokers, chance)


def _draw_lonely_pause(at_ms: int, brokers: int, chance: random.Random) -> list[Fault]:
    """The store is away for all while one machine stands still, mostly for longer than leases last."""
    pause_ms = chance.choice(_LONG_MS)
    outage_ms = pause_ms + chance.choice((0, 1_500, 6_000))
    pause_at_ms = at_ms + chance.choice((0, 1_000, 3_000))
    return [
        Fault(at_ms, FaultKind.STORE_OUTAGE, outage_ms, (0,)),
        Fault(pause_at_ms, FaultKind.PAUSE, pause_ms, _one(brokers, chance)),
    ]


def _one(brokers: int, chance: random.Random) -> tuple[int, ...]:
    return _CONTROLLER if chance.random() < 0.25 else (chance.randrange(brokers),)


def _crash(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    changes = chance.choice((0, chance.randint(1, 40)))
    if chance.random() < 0.25:
        return Fault(at_ms, FaultKind.KILL, changes, tuple(sorted(chance.sample(range(brokers), 2))))
    kind = chance.choice((FaultKind.KILL, FaultKind.KILL, FaultKind.POWER_CUT))
    return Fault(at_ms, kind, changes, _one(brokers, chance))


def _clean_restart(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    return Fault(at_ms, FaultKind.CLEAN_RESTART, 0, _one(brokers, chance))


def _standstill(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    kind = chance.choice((FaultKind.PAUSE, FaultKind.PAUSE, FaultKind.SLOW_DISK))
    return Fault(at_ms, kind, chance.choice(_LONG_MS), _one(brokers, chance))


def _cut(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    kind = chance.choice((FaultKind.CUT, FaultKind.ONE_WAY_CUT, FaultKind.RESET))
    return Fault(at_ms, kind, chance.choice(_LONG_MS), tuple(chance.sample(range(brokers), 2)))


def _isolation(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    return Fault(at_ms, FaultKind.ISOLATION, chance.choice(_LONG_MS), _one(brokers, chance))


def _store(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    kind = chance.choice((FaultKind.STORE_CUT, FaultKind.STORE_CUT, FaultKind.STORE_RESET, FaultKind.STORE_OUTAGE))
    return Fault(at_ms, kind, chance.choice(_SHORT_MS + _LONG_MS), _one(brokers, chance))


def _session(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    if chance.random() < 0.4:
        return Fault(at_ms, FaultKind.EXPIRY, 0, _one(brokers, chance))
    return Fault(at_ms, FaultKind.LOST_ANSWER, chance.choice((0, 1)), _one(brokers, chance))


def _at_write(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    kind = chance.choice((FaultKind.KILL_AT_WRITE, FaultKind.PAUSE_AT_WRITE))
    return Fault(at_ms, kind, chance.choice((0, 1)), chance.choice((_CONTROLLER, _one(brokers, chance))))


def _clock(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    jump_ms = chance.choice((-3_600_000, -500, 700, 20_000, 3_600_000))
    return Fault(at_ms, FaultKind.CLOCK_JUMP, jump_ms, _one(brokers, chance))


def _slow_network(at_ms: int, brokers: int, chance: random.Random) -> Fault:
    return Fault(at_ms, FaultKind.SLOW_NETWORK, chance.choice((500, 3_000)))


_DRAWS: tuple[_Draw, ...] = (
    _crash,
    _clean_restart,
    _standstill,
    _cut,
    _isolation,
    _store,
    _session,
    _at_write,
    _clock,
    _slow_network,
)
_WEIGHTS = (6, 2, 4, 4, 2, 3, 3, 3, 1, 1)
