"""kill -9 under load, again and again; see penstock.testing.crash_rounds for what runs and what is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.testing.crash_rounds import CrashRounds


def run_rounds(data_dir: Path, rounds: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"crash rounds with seed {seed}")  # shown by pytest when the test fails
    report = CrashRounds(data_dir, rounds, seed, say=print).run()
    print(report)
    assert report.is_sound, str(report)
    assert report.rounds >= rounds
    assert report.acknowledged > rounds
    assert report.commits > 0


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_thirty_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", 30)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_a_thousand_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", 1_000)
