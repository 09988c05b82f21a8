"""What a run does about commands and facts."""

from __future__ import annotations

import itertools

import pytest

from penstock.runs.lifecycle import Action, Fact, decide_command, decide_fact, expiry_of, is_for, settle
from penstock.runs.records import ENDED, Acknowledgement, Command, CommandOutcome, State, Verb

S, V, A = State, Verb, Action
WRITTEN = [state for state in State if state is not State.LOST]


@pytest.mark.parametrize(
    ("state", "verb", "then", "outcome", "action"),
    [
        (S.STARTING, V.PAUSE, S.PAUSING, CommandOutcome.ACCEPTED, A.HOLD),
        (S.RUNNING, V.PAUSE, S.PAUSING, CommandOutcome.ACCEPTED, A.HOLD),
        (S.PAUSING, V.PAUSE, S.PAUSING, CommandOutcome.ACCEPTED, None),
        (S.PAUSED, V.PAUSE, S.PAUSED, CommandOutcome.DONE, None),
        (S.RESTARTING, V.PAUSE, S.RESTARTING, CommandOutcome.REFUSED, None),
        (S.STOPPING, V.PAUSE, S.STOPPING, CommandOutcome.REFUSED, None),
        (S.RUNNING, V.RESUME, S.RUNNING, CommandOutcome.DONE, None),
        (S.PAUSING, V.RESUME, S.RUNNING, CommandOutcome.DONE, A.RELEASE),
        (S.PAUSED, V.RESUME, S.RUNNING, CommandOutcome.DONE, A.RELEASE),
        (S.STOPPING, V.RESUME, S.STOPPING, CommandOutcome.REFUSED, None),
        (S.STARTING, V.STOP, S.STOPPING, CommandOutcome.ACCEPTED, A.STOP),
        (S.RUNNING, V.STOP, S.STOPPING, CommandOutcome.ACCEPTED, A.STOP),
        (S.PAUSED, V.STOP, S.STOPPING, CommandOutcome.ACCEPTED, A.STOP),
        (S.RESTARTING, V.STOP, S.STOPPING, CommandOutcome.ACCEPTED, A.STOP),
        (S.STOPPING, V.STOP, S.STOPPING, CommandOutcome.ACCEPTED, None),
        (S.STOPPED, V.STOP, S.STOPPED, CommandOutcome.DONE, None),
        (S.FAILED, V.STOP, S.FAILED, CommandOutcome.REFUSED, None),
        (S.STARTING, V.RESTART, S.STARTING, CommandOutcome.REFUSED, None),
        (S.RUNNING, V.RESTART, S.RESTARTING, CommandOutcome.ACCEPTED, A.RESTART),
        (S.PAUSED, V.RESTART, S.RESTARTING, CommandOutcome.ACCEPTED, A.RESTART),
        (S.RESTARTING, V.RESTART, S.RESTARTING, CommandOutcome.ACCEPTED, None),
        (S.STOPPED, V.RESTART, S.STOPPED, CommandOutcome.REFUSED, None),
    ],
)
def test_command_is_decided_by_the_state(
    state: State, verb: Verb, then: State, outcome: CommandOutcome, action: Action | None
) -> None:
    decision = decide_command(state, verb)
    assert (decision.state, decision.outcome, decision.action) == (then, outcome, action)
    assert decision.text


@pytest.mark.parametrize(
    ("state", "fact", "then"),
    [
        (S.STARTING, Fact.STARTED, S.RUNNING),
        (S.PAUSED, Fact.STARTED, S.PAUSED),  # paused while it started
        (S.STOPPING, Fact.STARTED, S.STOPPING),
        (S.PAUSING, Fact.RESTED, S.PAUSED),
        (S.RUNNING, Fact.RESTED, S.RUNNING),  # resumed before the batch ended
        (S.RUNNING, Fact.ENDING, S.STOPPING),
        (S.STOPPING, Fact.ENDED, S.STOPPED),
        (S.PAUSED, Fact.FAILED, S.FAILED),
    ],
)
def test_fact_changes_the_state(state: State, fact: Fact, then: State) -> None:
    assert decide_fact(state, fact) is then


def test_nothing_changes_when_a_run_has_ended() -> None:
    for state in ENDED:
        assert {decide_fact(state, fact) for fact in Fact} == {state}
        assert {decide_command(state, verb).state for verb in Verb} == {state}
        assert {decide_command(state, verb).action for verb in Verb} == {None}


def test_the_same_command_changes_nothing_more_when_it_is_given_twice_in_a_row() -> None:
    for state, verb in itertools.product(WRITTEN, Verb):
        first = decide_command(state, verb)
        second = decide_command(first.state, verb)
        assert second.state is first.state
        assert second.action is None or first.outcome is CommandOutcome.REFUSED


def acknowledged(verb: Verb, outcome: CommandOutcome = CommandOutcome.ACCEPTED) -> Acknowledgement:
    return Acknowledgement("c1", verb, outcome, "it finishes the batch under way", "somebody", 1)


@pytest.mark.parametrize(
    ("verb", "state", "outcome"),
    [
        (V.PAUSE, S.PAUSING, CommandOutcome.ACCEPTED),
        (V.PAUSE, S.PAUSED, CommandOutcome.DONE),
        (V.PAUSE, S.RUNNING, CommandOutcome.OVERTAKEN),
        (V.PAUSE, S.STOPPING, CommandOutcome.OVERTAKEN),
        (V.STOP, S.STOPPED, CommandOutcome.DONE),
        (V.STOP, S.FAILED, CommandOutcome.OVERTAKEN),
        (V.RESTART, S.RUNNING, CommandOutcome.DONE),
        (V.RESTART, S.FAILED, CommandOutcome.OVERTAKEN),
    ],
)
def test_accepted_command_is_settled_when_the_run_arrives_or_goes_elsewhere(
    verb: Verb, state: State, outcome: CommandOutcome
) -> None:
    (settled,) = settle([acknowledged(verb)], state, "the disk is full", 9)
    assert settled.outcome is outcome
    assert ("the disk is full" in settled.text) == (state is S.FAILED)


def test_answer_stays_when_it_was_final() -> None:
    final = acknowledged(V.PAUSE, CommandOutcome.REFUSED)
    assert settle([final], S.PAUSED, "", 9) == (final,)


def test_no_other_run_is_meant_when_a_command_has_a_run_id() -> None:
    to_run = Command("c", V.STOP, run="jobs-1", name="jobs", type="pipeline", valid_for_ms=1)
    to_name = Command("c", V.STOP, name="jobs", type="pipeline", valid_for_ms=1)
    assert is_for(to_run, "jobs-1", "pipeline", "jobs")
    assert not is_for(to_run, "jobs-2", "pipeline", "jobs")
    assert is_for(to_name, "jobs-2", "pipeline", "jobs")
    assert not is_for(to_name, "jobs-2", "connector", "jobs")
    assert not is_for(to_name, "other-1", "pipeline", "other")


def test_command_expires_when_it_comes_too_late() -> None:
    command = Command("c", V.STOP, run="jobs-1", valid_for_ms=60_000)
    assert expiry_of(command, 60_000) == ""
    assert "61 s" in expiry_of(command, 61_000)
