"""The pause before another attempt: twice as long after each failure, up to a longest one, with jitter.

The arithmetic is Kafka's (KIP-580, `ExponentialBackoff`): the pause doubles, jitter makes it up to 20 % shorter or
longer, and no pause exceeds the longest one. Jitter keeps callers that failed together, as all clients of a broker that
died, from coming back together. A pause that does not grow has no jitter, as in Kafka.

The caller brings the chance: code that the simulation runs hands in that of its `Surroundings`, clients use
`client.retries.SYSTEM_CHANCE`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# At least 0 and less than 1, as `random.Random.random` returns.
Chance: TypeAlias = Callable[[], float]

KAFKAS_JITTER = 0.2
# More doublings than any longest pause allows, and few enough for a float.
_MOST_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    first_s: float
    longest_s: float
    jitter: float = KAFKAS_JITTER

    def pause_s(self, failures: int, chance: Chance) -> float:
        """After so many failures in a row, at least one."""
        assert failures >= 1, "a pause follows a failure"
        pause_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        if self.first_s >= self.longest_s or not self.jitter:
            return pause_s
        return min(self.longest_s, pause_s * (1 + self.jitter * (2 * chance() - 1)))


class Pauses:
    """The pauses of one piece of work: `next_s` after each failure, `reset` after a success."""

    __slots__ = ("_backoff", "_chance", "_failures")

    def __init__(self, backoff: Backoff, chance: Chance) -> None:
        self._backoff = backoff
        self._chance = chance
        self._failures = 0

    def next_s(self) -> float:
        """Counts a failure."""
        self._failures += 1
        return self._backoff.pause_s(self._failures, self._chance)

    def reset(self) -> None:
        self._failures = 0
