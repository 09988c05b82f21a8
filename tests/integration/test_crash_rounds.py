"""kill -9 under load, again and again; see proof.crash.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.testing.history import Outcome
from proof.crash.rounds import CrashRounds


def run_rounds(data_dir: Path, rounds: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"crash rounds with seed {seed}")  # shown by pytest when the test fails
    report = CrashRounds(data_dir, rounds, seed, say=print).run()
    print(report)
    assert report.is_sound, str(report)
    assert report.rounds >= rounds
    assert report.acknowledged > rounds
    assert report.commits > 0
    assert report.transactions[Outcome.OK] > rounds // 4
    assert 0 < report.compacted_to < report.keyed


# One kill in five comes while the broker starts: with 15, in 96 runs of 100 one of them does. The others meet senders,
# transactions and the cleaner at work, each several times; the rarer moments are the soak's.
SHORT_ROUNDS = 15


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_fifteen_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", SHORT_ROUNDS)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_a_thousand_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", 1_000)
