"""One broker of three is killed after the other while applications begin, with librdkafka, Java's client and, where Go
is here, one of Go's: what they see on Penstock beside what they see on Kafka, in the same rounds.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from apache_kafka.kills import compare, find_go
from proof.frame import Task
from proof.kills.rounds import AWAY_S, PERIOD_S

# With each library.
APPLICATIONS = 4


def run_rounds(directory: Path, rounds: int, period_s: float, away_s: float) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"kill rounds with seed {seed}")  # shown by pytest when the test fails
    comparison = compare(Task(seed, rounds, directory, print), period_s, away_s)
    print(comparison)
    assert comparison.is_sound, str(comparison)
    libraries = 2 if find_go(print) is None else 3
    assert len(comparison.ours.journal.waits) == libraries * APPLICATIONS, str(comparison)


@pytest.mark.timeout(600)  # 95 s on a machine of its own; a broker of Kafka that comes back waits for the other tests
def test_applications_see_no_error_and_no_wait_that_kafka_does_not_have(tmp_path: Path) -> None:
    run_rounds(tmp_path, 2, period_s=12.0, away_s=5.0)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_applications_see_no_error_and_no_wait_that_kafka_does_not_have_in_thirty_kills(tmp_path: Path) -> None:
    run_rounds(tmp_path, 30, PERIOD_S, AWAY_S)
