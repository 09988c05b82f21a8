"""How clients that block a thread try again: how often, how long, and with which pauses between.

The caller says what a failure means (`Outlook`); the policy says what follows:

    FINAL      no further attempt can help: the failure is the caller's at once
    DOUBTFUL   a further attempt may help: `attempts` are made in all
    PASSING    the other side is away and will come back: attempts go on until the patience is used up, and at least as
               many are made as for a doubtful failure

`Retrying` is for a thread. Loops on an event loop have rules of their own and take their pauses from the same
`core.time.backoff`, with the chance of this module.

When no attempt is left, the last failure is raised as it is; the caller puts it into its own words.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from penstock.core.time.backoff import Backoff, Chance, Pauses

Result = TypeVar("Result")


# The system's own source has no state that a forked worker of Spark would share with its siblings.
SYSTEM_CHANCE: Final[Chance] = random.SystemRandom().random


class Outlook(enum.Enum):
    FINAL = enum.auto()
    DOUBTFUL = enum.auto()
    PASSING = enum.auto()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    patience_s: float
    first_pause_s: float
    longest_pause_s: float  # each pause is about twice the one before, up to this
    attempts: int = 1  # that are made whatever the patience

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.first_pause_s, self.longest_pause_s)


@dataclass(slots=True)
class Retrying:
    """The attempts at one piece of work. For one thread.

    Without a clock only the pauses count against the patience: work that takes minutes before it fails has used none.
    """

    policy: RetryPolicy
    clock: Callable[[], float] | None = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Chance = SYSTEM_CHANCE
    attempts: int = field(default=0, init=False)  # that have failed since the start, or since the last progress
    _began: float = field(default=0.0, init=False)
    _paused_s: float = field(default=0.0, init=False)
    _pauses: Pauses = field(init=False)

    def __post_init__(self) -> None:
        self._pauses = Pauses(self.policy.backoff, self.chance)
        self.restart()

    def restart(self) -> None:
        """Call this after progress: patience and pauses begin anew."""
        self.attempts, self._paused_s = 0, 0.0
        self._pauses.reset()
        if self.clock is not None:
            self._began = self.clock()

    @property
    def elapsed_s(self) -> float:
        return self._paused_s if self.clock is None else self.clock() - self._began

    def may_go_on(self, outlook: Outlook) -> bool:
        """Counts a failed attempt. Whether another one is to be made; `pause` comes before it."""
        self.attempts += 1
        if outlook is Outlook.FINAL:
            return False
        if self.attempts < self.policy.attempts:
            return True
        return outlook is Outlook.PASSING and self.elapsed_s < self.policy.patience_s

    def pause(self) -> None:
        pause_s = self._pauses.next_s()
        self.sleep(pause_s)
        self._paused_s += pause_s

    def run(
        self,
        work: Callable[[], Result],
        errors: type[Exception] | tuple[type[Exception], ...],
        judge: Callable[[Exception], Outlook],
        tell: Callable[[Exception], None] = lambda _: None,
    ) -> Result:
        """What `work` returns. `tell` hears of each failure that is followed by another attempt."""
        while True:
            try:
                return work()
            except errors as error:
                if not self.may_go_on(judge(error)):
                    raise
                tell(error)
            self.pause()
