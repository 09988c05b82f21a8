"""A broker is killed after each step of a move, in virtual time: some steps in every run, all in a soak."""

from __future__ import annotations

import os
import random

import pytest

from proof.simulation.cluster.moves import MOVES, Case, Kill, run_case, run_moves, simulate_move

SEED = 1
# Of all kills of a move: one in so many.
SHARE = 200


@pytest.mark.parametrize("move", MOVES)
def test_a_move_ends_at_its_target_when_a_broker_is_killed_meanwhile(move: str) -> None:
    report = run_moves(SEED, [move], SHARE, say=print)
    assert report.is_sound, str(report)


def test_a_kill_that_has_no_step_is_told() -> None:
    outcome = run_case(Case("remove-follower", SEED, Kill(1_000_000, 0)))
    assert outcome.failures == ("there is no step 1000000",)


def test_the_steps_of_a_move_are_the_same_when_it_is_made_again() -> None:
    first, steps = simulate_move("remove-leader", SEED)
    second, again = simulate_move("remove-leader", SEED)
    assert first.digest == second.digest
    assert steps.count == again.count > 0


@pytest.mark.soak
def test_a_move_ends_at_its_target_when_each_broker_is_killed_after_each_step() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"moves with seed {seed}")
    report = run_moves(seed, say=print, processes=os.cpu_count() or 1)
    print(report)
    assert report.is_sound, str(report)
