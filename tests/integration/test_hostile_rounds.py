"""Hostile connections beside a good client; see proof.hostile.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.hostile.rounds import HostileRounds


def run_rounds(scratch: Path, connections: int, seed: int) -> None:
    print(f"hostile rounds with seed {seed}")  # shown by pytest when the test fails
    report = HostileRounds(scratch, connections, seed, say=print).run()
    print(report)
    assert report.is_sound, str(report)
    assert (report.at_once, report.in_turn) == (connections, connections)
    assert report.records > 0


def test_good_client_is_served_when_fifty_hostile_connections_come(tmp_path: Path) -> None:
    run_rounds(tmp_path, 50, seed=2026)


@pytest.mark.soak
def test_good_client_is_served_when_five_hundred_hostile_connections_come(tmp_path: Path) -> None:
    run_rounds(tmp_path, 500, seed=random.SystemRandom().randrange(2**32))
