"""The effect of a command or a fact on a run, by the run's state. Pure.

    starting --started--> running --pause--> pausing --rested--> paused --resume--> running
    running, pausing, paused --restart--> restarting --started--> running
    any of these --stop or ending--> stopping --ended--> stopped
    any of these --failed--> failed

Rules:
- A command is decided once, by its id. The same command delivered twice changes nothing.
- A command that takes time is accepted first. Its acknowledgement is open while the run is on the way (`_ON_THE_WAY`),
  done when the run has reached the command's goal, and overtaken when the run goes elsewhere.
- A command for a state that holds already is done, not refused: two users may press the same button.
- What has ended stays ended: a run's id is never used again.
- `paused` means that no batch is under way and none begins. The batch under way when the command comes is finished.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from penstock.runs.records import ENDED, Acknowledgement, Command, CommandOutcome, State, Verb


class Fact(enum.Enum):
    """An event in a run that no command caused."""

    STARTED = enum.auto()  # every part runs, for the first time or anew
    RESTED = enum.auto()  # paused by a command, and no batch is under way any more
    ENDING = enum.auto()  # a signal, the end of the data, or a failure of another part
    ENDED = enum.auto()
    FAILED = enum.auto()


class Action(enum.Enum):
    """A task for the run. Each returns at once; a fact reports its end."""

    HOLD = enum.auto()  # begin no further batch
    RELEASE = enum.auto()
    STOP = enum.auto()
    RESTART = enum.auto()


@dataclass(frozen=True, slots=True)
class LifecycleDecision:
    state: State
    outcome: CommandOutcome
    text: str
    action: Action | None = None


Event: TypeAlias = "Verb | Fact"

_STARTING, _RUNNING, _PAUSING, _PAUSED = State.STARTING, State.RUNNING, State.PAUSING, State.PAUSED
_RESTARTING, _STOPPING, _STOPPED, _FAILED = State.RESTARTING, State.STOPPING, State.STOPPED, State.FAILED
_ACCEPTED, _DONE, _REFUSED = CommandOutcome.ACCEPTED, CommandOutcome.DONE, CommandOutcome.REFUSED

# By command and state. A pair that is missing is refused, with the state as the reason.
_COMMANDS: Final[dict[Verb, dict[State, LifecycleDecision]]] = {
    Verb.PAUSE: {
        _STARTING: LifecycleDecision(_PAUSING, _ACCEPTED, "it will not begin a batch", Action.HOLD),
        _RUNNING: LifecycleDecision(_PAUSING, _ACCEPTED, "it finishes the batch under way", Action.HOLD),
        _PAUSING: LifecycleDecision(_PAUSING, _ACCEPTED, "it was being paused already"),
        _PAUSED: LifecycleDecision(_PAUSED, _DONE, "it was paused already"),
    },
    Verb.RESUME: {
        _STARTING: LifecycleDecision(_STARTING, _DONE, "it was not paused"),
        _RUNNING: LifecycleDecision(_RUNNING, _DONE, "it was not paused"),
        _PAUSING: LifecycleDecision(_RUNNING, _DONE, "it goes on", Action.RELEASE),
        _PAUSED: LifecycleDecision(_RUNNING, _DONE, "it goes on", Action.RELEASE),
        _RESTARTING: LifecycleDecision(_RESTARTING, _DONE, "it was not paused"),
    },
    Verb.STOP: {
        _STARTING: LifecycleDecision(_STOPPING, _ACCEPTED, "it stops when it has started", Action.STOP),
        _RUNNING: LifecycleDecision(_STOPPING, _ACCEPTED, "it finishes the batch under way", Action.STOP),
        _PAUSING: LifecycleDecision(_STOPPING, _ACCEPTED, "it finishes the batch under way", Action.STOP),
        _PAUSED: LifecycleDecision(_STOPPING, _ACCEPTED, "it stops", Action.STOP),
        _RESTARTING: LifecycleDecision(_STOPPING, _ACCEPTED, "it stops instead of starting anew", Action.STOP),
        _STOPPING: LifecycleDecision(_STOPPING, _ACCEPTED, "it was being stopped already"),
        _STOPPED: LifecycleDecision(_STOPPED, _DONE, "it had stopped already"),
    },
    Verb.RESTART: {
        _RUNNING: LifecycleDecision(_RESTARTING, _ACCEPTED, "it finishes the batch under way", Action.RESTART),
        _PAUSING: LifecycleDecision(_RESTARTING, _ACCEPTED, "it finishes the batch under way", Action.RESTART),
        _PAUSED: LifecycleDecision(_RESTARTING, _ACCEPTED, "it starts anew", Action.RESTART),
        _RESTARTING: LifecycleDecision(_RESTARTING, _ACCEPTED, "it was being restarted already"),
    },
}  # fmt: skip

# By fact and state. A pair that is missing changes nothing: a run that got a stop while it started goes on stopping.
_LIVE: Final = (_STARTING, _RUNNING, _PAUSING, _PAUSED, _RESTARTING, _STOPPING)
_FACTS: Final[dict[Fact, dict[State, State]]] = {
    Fact.STARTED: {_STARTING: _RUNNING, _RESTARTING: _RUNNING},
    Fact.RESTED: {_PAUSING: _PAUSED},
    Fact.ENDING: dict.fromkeys(_LIVE, _STOPPING),
    Fact.ENDED: dict.fromkeys(_LIVE, _STOPPED),
    Fact.FAILED: dict.fromkeys(_LIVE, _FAILED),
}

# Of an accepted command: the run's state on the way, the state at the goal, and the text for that.
_ON_THE_WAY: Final = {Verb.PAUSE: _PAUSING, Verb.STOP: _STOPPING, Verb.RESTART: _RESTARTING}
_GOALS: Final = {Verb.PAUSE: _PAUSED, Verb.STOP: _STOPPED, Verb.RESTART: _RUNNING}
_DONE_TEXTS: Final = {
    Verb.PAUSE: "it begins no batch until it is resumed",
    Verb.STOP: "it has stopped; a new run goes on from there",
    Verb.RESTART: "it was started anew",
}


def decide_command(state: State, verb: Verb) -> LifecycleDecision:
    decision = _COMMANDS[verb].get(state)
    if decision is not None:
        return decision
    reason = f"it has {state} already" if state in ENDED else f"it is {state}"
    return LifecycleDecision(state, _REFUSED, reason)


def decide_fact(state: State, fact: Fact) -> State:
    return _FACTS[fact].get(state, state)


def is_for(command: Command, run: str, kind: str, name: str) -> bool:
    """To a run by its id, or to a name; an id that is given decides alone, so no later run obeys it."""
    if command.run:
        return command.run == run
    return command.name == name and command.type in ("", kind)


def expiry_of(command: Command, age_ms: int) -> str:
    """Why a command of that age is too old to obey; empty: it is not."""
    if age_ms <= command.valid_for_ms:
        return ""
    return f"it came {age_ms / 1000:.0f} s after it was sent and was valid for {command.valid_for_ms / 1000:.0f} s"


def settle(
    acknowledgements: Iterable[Acknowledgement], state: State, error: str, now_ms: int
) -> tuple[Acknowledgement, ...]:
    """The acknowledgements after the run has come into `state`: those that were open may be done or overtaken."""
    return tuple(_settle_one(each, state, error, now_ms) for each in acknowledgements)


def _settle_one(acknowledgement: Acknowledgement, state: State, error: str, now_ms: int) -> Acknowledgement:
    verb = acknowledgement.verb
    if acknowledgement.outcome is not _ACCEPTED or state is _ON_THE_WAY[verb]:
        return acknowledgement
    if state is _GOALS[verb]:
        return replace(acknowledgement, outcome=_DONE, text=_DONE_TEXTS[verb], at_ms=now_ms)
    text = f"the run is {state}" if state not in ENDED else f"the run has {state}{': ' + error if error else ''}"
    return replace(acknowledgement, outcome=CommandOutcome.OVERTAKEN, text=text, at_ms=now_ms)
