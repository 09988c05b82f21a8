"""An application of streams under kill -9; see proof.pipeline.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.pipeline.rounds import PipelineRounds
from proof.pipeline.streams_check import differences, expected_tables, record_of
from proof.pipeline.streams_driver import BY_CUSTOMER, COUNTED, JOINED
from proof.pipeline.work import StreamsWork


def run_rounds(directory: Path, kills: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"rounds of streams with seed {seed}")  # shown by pytest when the test fails
    report = PipelineRounds(directory, kills, seed, say=print, work=StreamsWork()).run()
    print(report)
    assert report.is_sound, str(report)
    assert sum(report.kills.values()) == kills
    assert {victim.removesuffix("s") for victim in report.kills} == {"broker", "worker", "driver"}
    assert report.batches > 0


@pytest.mark.timeout(900)
def test_joins_and_counts_are_what_the_records_make_when_broker_worker_and_driver_are_killed(tmp_path: Path) -> None:
    run_rounds(tmp_path / "rounds", 3)


@pytest.mark.soak
def test_joins_and_counts_are_what_the_records_make_when_killed_100_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "rounds", 100)


def test_what_is_expected_has_every_case_when_there_are_records_enough() -> None:
    expected = expected_tables(1000)
    assert sum(expected[COUNTED].values()) == 400
    assert {note is None for _, note in expected[JOINED].values()} == {False}
    assert {name is None for _, name in expected[BY_CUSTOMER].values()} == {True, False}
    assert sum(record_of(number)["value"] is None for number in range(1000)) == 50
    assert differences({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == (
        "2 of 2 keys differ: b is 3, should be 2; c is 4, should be None"
    )
