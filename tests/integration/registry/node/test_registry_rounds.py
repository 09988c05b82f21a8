"""kill -9 of registries and brokers under registrations; see `rounds` for what runs and what is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.integration.registry.node.rounds import Rounds


def run_rounds(directory: Path, rounds: int, instances: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"registry rounds with seed {seed}")  # shown by pytest when the test fails
    killing = Rounds(directory, instances, clients=3, seed=seed)
    with killing.running():
        killing.run(rounds)
        answered = killing.check()
    print(f"{answered} registrations answered, killed: {dict(killing.killed)}")
    assert answered > rounds


def test_no_id_is_given_twice_and_none_is_lost_when_leaders_and_brokers_are_killed_five_times(tmp_path: Path) -> None:
    run_rounds(tmp_path, 5, instances=2)


@pytest.mark.soak
def test_no_id_is_given_twice_and_none_is_lost_when_leaders_and_brokers_are_killed_300_times(tmp_path: Path) -> None:
    run_rounds(tmp_path, 300, instances=3)
