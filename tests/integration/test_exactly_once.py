"""Copying in transactions under kill -9; see proof.crash.exactly_once for what runs and what is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.crash.exactly_once import ExactlyOnceRounds


def run_rounds(data_dir: Path, rounds: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"exactly once with seed {seed}")  # shown by pytest when the test fails
    report = ExactlyOnceRounds(data_dir, rounds, seed, say=print).run()
    assert report.is_sound, str(report)
    assert report.records > rounds


def test_each_record_is_copied_once_when_broker_and_copier_are_killed_ten_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", 10)


@pytest.mark.soak
def test_each_record_is_copied_once_when_broker_and_copier_are_killed_three_hundred_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "data", 300)
