"""Files damaged in every way; see proof.damage.rounds for what runs and what is checked."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from proof.damage.rounds import DamageRounds
from proof.frame import memory_directory


def run_cases(cases: int, seed: int, broker_share: float = 0.02) -> None:
    print(f"damage rounds with seed {seed}")  # shown by pytest when the test fails
    with tempfile.TemporaryDirectory(prefix="penstock-damage-", dir=memory_directory()) as scratch:
        report = DamageRounds(Path(scratch), cases, seed, broker_share, say=print).run()
    print(report)
    assert report.is_sound, str(report)
    assert report.cases == cases
    assert report.records > 100 * cases
    assert report.outcomes["served"] > cases // 2


def test_only_right_records_are_served_when_files_are_damaged() -> None:
    run_cases(150, seed=2026, broker_share=0.1)


@pytest.mark.soak
def test_only_right_records_are_served_when_ten_thousand_files_are_damaged() -> None:
    run_cases(10_000, seed=random.SystemRandom().randrange(2**32))
