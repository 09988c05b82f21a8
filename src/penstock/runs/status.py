"""The state of one run: changed by commands and facts, read by its publisher. Safe for several threads.

The decisions are `lifecycle`'s. Actions are called with the lock held, so that they come in the order of the
decisions; they return at once, and may report a fact before they do. A signal handler must not come here, since it may
interrupt a thread that is in the middle of a change.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from penstock.core.clock import Clock
from penstock.runs.lifecycle import Action, Fact, LifecycleDecision, decide_command, decide_fact, expiry_of, settle
from penstock.runs.records import ENDED, MAX_TEXT, Acknowledgement, Command, CommandOutcome, State, Verb, shorten

# A sender that waits for an acknowledgement reads every record, so a few are enough; they are part of every heartbeat.
ACKNOWLEDGEMENTS_KEPT = 8
# A command comes twice when its sender tried again, so at once.
COMMANDS_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class StatusView:
    state: State
    changed_ms: int
    restarts: int
    error: str
    acknowledgements: tuple[Acknowledgement, ...]


class RunStatus:
    def __init__(
        self,
        actions: Mapping[Action, Callable[[], None]],
        clock: Clock,
        refusals: Mapping[Verb, str] = MappingProxyType({}),
    ) -> None:
        """`refusals` are commands that this run never obeys, with the reasons."""
        self._actions = actions
        self._refusals = refusals
        self._clock = clock
        self._lock = threading.RLock()
        self._view = StatusView(State.STARTING, clock.now_ms(), 0, "", ())
        self._commands: deque[str] = deque(maxlen=COMMANDS_REMEMBERED)
        self._changes = 0

    @property
    def view(self) -> StatusView:
        return self._view

    @property
    def changes(self) -> int:
        """Grows with every change that readers of the topic should see at once."""
        return self._changes

    @property
    def is_ended(self) -> bool:
        return self._view.state in ENDED

    def ask(self, verb: Verb) -> LifecycleDecision:
        """A command from within the process."""
        with self._lock:
            decision = self._decide(verb)
            self._change(decision.state)
            self._act(decision)
        return decision

    def obey(self, command: Command, age_ms: int) -> LifecycleDecision | None:
        """A command from the topic. None: it came before."""
        with self._lock:
            if command.id in self._commands:
                return None
            self._commands.append(command.id)
            expiry = expiry_of(command, age_ms)
            state = self._view.state
            decision = (
                LifecycleDecision(state, CommandOutcome.EXPIRED, expiry) if expiry else self._decide(command.verb)
            )
            answer = Acknowledgement(
                command.id, command.verb, decision.outcome, decision.text, command.by, self._clock.now_ms()
            )
            self._change(decision.state, answer)
            self._act(decision)
        return decision

    def _decide(self, verb: Verb) -> LifecycleDecision:
        if verb in self._refusals and not self.is_ended:
            return LifecycleDecision(self._view.state, CommandOutcome.REFUSED, self._refusals[verb])
        return decide_command(self._view.state, verb)

    def note(self, fact: Fact, error: str = "") -> None:
        with self._lock:
            before = self._view.state
            state = decide_fact(before, fact)
            restarts = self._view.restarts + (fact is Fact.STARTED and before is State.RESTARTING)
            self._change(state, error=shorten(error, MAX_TEXT), restarts=restarts)

    def _change(
        self, state: State, answer: Acknowledgement | None = None, error: str = "", restarts: int | None = None
    ) -> None:
        view, now_ms = self._view, self._clock.now_ms()
        error = error or view.error
        answers = (*view.acknowledgements, answer) if answer is not None else view.acknowledgements
        settled = settle(answers, state, error, now_ms)[-ACKNOWLEDGEMENTS_KEPT:]
        changed = StatusView(
            state,
            now_ms if state is not view.state else view.changed_ms,
            view.restarts if restarts is None else restarts,
            error,
            settled,
        )
        if changed != view:
            self._view = changed
            self._changes += 1

    def _act(self, decision: LifecycleDecision) -> None:
        if decision.action is not None:
            self._actions[decision.action]()
