"""The faults whose times are measured, with their goals. A new case is a line of `CASES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.recovery.stage import NODES, Stage

_PARTITIONS = 9
_MANY = 1_000


@dataclass(frozen=True, slots=True)
class Layout:
    """A topic, who is to lead its partitions, and how often each of them is written to."""

    topic: str
    assignment: list[list[int]]
    interval_s: float = 0.05
    probed: int = 1  # the probe writes to every so manieth partition


@dataclass(frozen=True, slots=True)
class Goal:
    median_s: float | None
    worst_s: float

    def __str__(self) -> str:
        median = "" if self.median_s is None else f"median {self.median_s:g} s, "
        return f"{median}worst {self.worst_s:g} s"


@dataclass(frozen=True, slots=True)
class Case:
    """`hurt` returns when the fault is there. With `is_pause` the longest wait of a record counts, else the time until
    every partition is taken again."""

    name: str
    what: str
    goal: Goal
    is_controller: bool  # the victim
    hurt: Callable[[Stage, int], None]
    layout: Callable[[int], Layout]
    is_pause: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_slow: bool = False  # takes so long that it is tried only when it is named


def _rotated(first: int) -> list[int]:
    """All brokers, from this one on."""
    start = NODES.index(first)
    return [*NODES[start:], *NODES[:start]]


def _spread(_: int) -> Layout:
    return Layout("spread", [_rotated(NODES[index % len(NODES)]) for index in range(_PARTITIONS)])


def _away_from(victim: int) -> Layout:
    """The victim leads nothing."""
    others = [node for node in NODES if node != victim]
    leaders = [others[index % len(others)] for index in range(_PARTITIONS)]
    return Layout(f"away-from-{victim}", [_rotated(leader) for leader in leaders])


def _all_on(victim: int) -> Layout:
    """The victim leads everything; its two followers would take over a half each."""
    others = [node for node in NODES if node != victim]
    orders = ([victim, *others], [victim, *reversed(others)])
    return Layout(f"all-on-{victim}", [orders[index % 2] for index in range(_MANY)], interval_s=5.0, probed=50)


def _kill(stage: Stage, victim: int) -> None:
    stage.cluster.kill(victim)


def _stop(stage: Stage, victim: int) -> None:
    stage.cluster.stop_broker(victim)


def _pause(stage: Stage, victim: int) -> None:
    stage.cluster.pause(victim)


# An application that must not wait for half a minute when a broker hangs gives its client these.
_QUICK_TO_GIVE_UP = {"socket.timeout.ms": 1_000, "request.timeout.ms": 1_000}

CASES = (
    Case("kill-leader", "kill -9 of a leader", Goal(1.0, 3.0), False, _kill, _spread),
    Case("kill-controller", "kill -9 of the controller, which leads nothing", Goal(3.0, 5.0), True, _kill, _away_from),
    Case("kill-both", "kill -9 of a leader that is the controller", Goal(3.0, 5.0), True, _kill, _spread),
    Case("stop", "controlled shutdown of a leader", Goal(None, 0.2), False, _stop, _spread, is_pause=True),
    Case("stop-controller", "the same of the controller", Goal(None, 0.2), True, _stop, _spread, is_pause=True),
    Case(
        "pause-leader",
        "SIGSTOP of a leader, timeouts of 1 s",
        Goal(None, 5.0),
        False,
        _pause,
        _spread,
        settings=_QUICK_TO_GIVE_UP,
    ),
    Case(
        "pause-defaults",
        "SIGSTOP of a leader, default timeouts",
        Goal(None, 120.0),
        False,
        _pause,
        _spread,
        is_slow=True,
    ),
    Case("kill-thousand", "kill -9 of the leader of 1,000 partitions", Goal(None, 5.0), False, _kill, _all_on),
)
CASES_BY_NAME = {case.name: case for case in CASES}
