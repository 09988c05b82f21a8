"""Mutated frames over every decoder and handler; see proof.fuzz.rounds for what runs and what is checked."""

from __future__ import annotations

import random

import pytest

from proof.fuzz.rounds import FuzzReport, run_fuzz


def check(report: FuzzReport, frames: int) -> None:
    print(report)
    assert report.is_sound, str(report)
    assert report.frames == frames
    # Decoders refuse most; enough must get through to the handlers.
    assert report.counts["answered"] > frames // 5
    assert report.counts["refused"] > frames // 5


def test_every_frame_is_answered_or_refused_when_requests_are_mutated() -> None:
    check(run_fuzz(20_000, seed=2026), 20_000)


@pytest.mark.soak
def test_every_frame_is_answered_or_refused_when_five_million_are_mutated() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"fuzz rounds with seed {seed}")  # shown by pytest when the test fails
    check(run_fuzz(5_000_000, seed, processes=2, say=print), 5_000_000)
