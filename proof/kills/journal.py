"""What applications saw while brokers were killed, and how two clusters compare. Pure but for the clock."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_TIMES_AS_LONG = 1.5
# Of waits below this one, chance decides which is longer.
SHORT_S = 1.0
# One application meets a few kills at one moment or another of its work: on Kafka the same one waited 1 s or 27 s. So
# in fewer kills the longest wait of any application of the same library counts.
FEW_KILLS = 10
_SLOWEST_SHOWN = 3
# A request was on its way to the broker that was killed, and nobody can tell what became of it. Whether a kill meets
# one is chance.
_TRANSPORT = "_TRANSPORT"
# What a client is told that sends such a request again by itself: its topic is there already, or is gone already.
_SECOND_ANSWERS = frozenset(
    {
        "TopicExistsException",
        "UnknownTopicOrPartitionException",
        "TOPIC_ALREADY_EXISTS",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)
_MAKES_TOPIC = "makes a topic"
# It comes soon after the kill, when another controller is elected.
_SECOND_ANSWER_WITHIN_S = 5.0


class Wait(NamedTuple):
    """From the first attempt until it was done. `after_kill_s` is when the first attempt came."""

    seconds: float
    after_kill_s: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, begun {self.after_kill_s:.1f} s after a kill"


@dataclass
class Journal:
    """Of all applications of one run. Each is named by its library and by what it does. Threads add to it."""

    now: Callable[[], float] = time.monotonic
    waits: defaultdict[str, list[Wait]] = field(default_factory=lambda: defaultdict(list))
    errors: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unfinished: list[str] = field(default_factory=list)
    kills: int = 0
    _killed_at: float = 0.0

    def note_kill(self) -> None:
        self.kills += 1
        self._killed_at = self.now()

    def note_wait(self, application: str, seconds: float) -> None:
        began = self.now() - seconds
        self.waits[application].append(Wait(seconds, began - self._killed_at))

    def note_error(self, application: str, kind: str) -> None:
        is_soon = self.now() - self._killed_at < _SECOND_ANSWER_WITHIN_S
        if is_soon and kind in _SECOND_ANSWERS and application.endswith(_MAKES_TOPIC):
            kind = _TRANSPORT
        self.errors[application][kind] += 1

    def longest(self, application: str) -> float:
        return max((wait.seconds for wait in self.waits[application]), default=0.0)

    def longest_of_library(self, application: str) -> float:
        library = application.partition(" ")[0]
        return max(self.longest(each) for each in [application, *self.waits] if each.partition(" ")[0] == library)

    def lines(self) -> list[str]:
        lines = []
        for application in sorted({*self.waits, *self.errors}):
            waits = sorted(self.waits[application], reverse=True)
            slowest = "; ".join(map(str, waits[:_SLOWEST_SHOWN]))
            errors = ", ".join(f"{kind} {count}" for kind, count in sorted(self.errors[application].items()))
            lines.append(f"{application}: {len(waits)} done, slowest {slowest}; errors: {errors or 'none'}")
        return [*lines, *(f"not done at the end: {each}" for each in self.unfinished)]


def find_worse(ours: Journal, theirs: Journal) -> list[str]:
    """Errors that applications saw with us alone, and waits that were much longer than theirs."""
    found = [f"not done at the end: {each}" for each in ours.unfinished if each not in theirs.unfinished]
    for application in sorted({*ours.waits, *ours.errors}):
        if not ours.waits[application]:
            found.append(f"{application}: not done once")
        errors = ours.errors[application]
        alone = sorted(errors.keys() - theirs.errors[application].keys() - {_TRANSPORT})
        found += [f"{application} saw {kind}, {errors[kind]} times" for kind in alone]
        longest = theirs.longest_of_library if theirs.kills < FEW_KILLS else theirs.longest
        own, other = ours.longest(application), longest(application)
        if own > max(SHORT_S, MOST_TIMES_AS_LONG * other):
            found.append(f"{application} waited {own:.1f} s, and {other:.1f} s there")
    return found
