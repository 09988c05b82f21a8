"""The rounds of pauses with Apache Kafka: its controller and a broker stand still, and an idempotent producer writes.
With Penstock they are tests/integration/cluster/test_pause_rounds.py, which asks for more than Kafka does.

In some rounds of a hundred a record is there twice, or is missing although it was acknowledged. Both need a broker that
refuses a batch and accepts the next one, and a library that draws the wrong conclusion: docs/reliability.md ("Pauses")
says how. The library has raised its epoch then, or was told no offset. Anything else would be another fault.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from apache_kafka.pauses import ApacheKafkaStage
from proof.pauses.placed import WITHOUT_OFFSET
from proof.pauses.rounds import BUSY, PAUSES_S, PauseRounds
from proof.verdict import DUPLICATED, LOST, OTHER, REORDERED


def run_rounds(directory: Path, rounds: int, pauses_s: Sequence[float], busy: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pause rounds with seed {seed}")  # shown by pytest when the test fails
    kept_in = directory / "bad"
    report = PauseRounds(directory, rounds, seed, ApacheKafkaStage, busy, pauses_s, kept_in, print).run()
    print(report)
    assert report.rounds == rounds
    assert len(report.findings[DUPLICATED]) == report.bumped_copies, str(report)
    assert all(text.endswith(WITHOUT_OFFSET) for text in report.findings[LOST]), str(report)
    assert not report.findings[REORDERED], str(report)
    assert not report.findings[OTHER], str(report)
    assert report.acknowledged == report.sent > 100 * rounds


def test_no_other_fault_is_found_when_the_controller_and_a_broker_stand_still(tmp_path: Path) -> None:
    run_rounds(tmp_path, 1, [3.0], busy=0)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_other_fault_is_found_when_the_controller_and_a_broker_stand_still_two_hundred_times(
    tmp_path: Path,
) -> None:
    run_rounds(tmp_path, 200, PAUSES_S, BUSY)
