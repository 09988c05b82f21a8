"""Mutated logins; see proof.logins.rounds for what runs and what is checked."""

from __future__ import annotations

import random

import pytest

from proof.logins.rounds import LoginReport, run_logins


def check(report: LoginReport, frames: int) -> None:
    print(report)
    assert report.is_sound, str(report)
    assert report.frames == frames
    # Enough must come through to the end of a login, and enough must be refused there.
    assert report.counts["logged in"] > frames // 100
    assert report.counts["refused"] > frames // 10


def test_nobody_gets_in_and_nothing_breaks_when_logins_are_mutated() -> None:
    check(run_logins(4_000, seed=2026), 4_000)


@pytest.mark.soak
def test_nobody_gets_in_and_nothing_breaks_when_a_million_logins_are_mutated() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"logins with seed {seed}")  # shown by pytest when the test fails
    check(run_logins(1_000_000, seed, say=print), 1_000_000)
