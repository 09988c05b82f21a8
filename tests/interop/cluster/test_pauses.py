"""The rounds of pauses with Apache Kafka: its controller and a broker stand still, and an idempotent producer writes.
With Penstock they are tests/integration/cluster/test_pause_rounds.py, which asks for more than Kafka does.

Kafka loses and reorders nothing. In about one round of a hundred a record is there twice: docs/reliability.md says how
("Pauses"). The library has bumped its epoch then. A copy within one epoch would be another fault.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from apache_kafka.pauses import ApacheKafkaStage
from penstock.proof.pauses.rounds import BUSY, PAUSES_S, PauseRounds
from penstock.proof.verdict import DUPLICATED


def run_rounds(directory: Path, rounds: int, pauses_s: Sequence[float], busy: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pause rounds with seed {seed}")  # shown by pytest when the test fails
    kept_in = directory / "bad"
    report = PauseRounds(directory, rounds, seed, ApacheKafkaStage, busy, pauses_s, kept_in, print).run()
    print(report)
    assert report.rounds == rounds
    assert len(report.findings[DUPLICATED]) == report.bumped_copies, str(report)
    assert not any(texts for name, texts in report.findings.items() if name != DUPLICATED), str(report)
    assert report.acknowledged == report.sent > 100 * rounds


def test_nothing_is_lost_or_reordered_when_the_controller_and_a_broker_stand_still(tmp_path: Path) -> None:
    run_rounds(tmp_path, 1, [3.0], busy=0)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_nothing_is_lost_or_reordered_when_the_controller_and_a_broker_stand_still_two_hundred_times(
    tmp_path: Path,
) -> None:
    run_rounds(tmp_path, 200, PAUSES_S, BUSY)
