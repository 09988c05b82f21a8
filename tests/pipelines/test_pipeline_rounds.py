"""Pipelines under kill -9; see penstock.proof.pipeline.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from penstock.proof.pipeline.check import compare
from penstock.proof.pipeline.rounds import PipelineRounds, plan_kills


def run_rounds(directory: Path, kills: int, *, uses_cluster: bool = False, brokers: int = 1) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pipeline rounds with seed {seed}")  # shown by pytest when the test fails
    report = PipelineRounds(directory, kills, seed, uses_cluster, say=print, brokers=brokers).run()
    print(report)
    assert report.is_sound, str(report)
    assert sum(report.kills.values()) == kills
    assert report.batches > kills // 4


# Five kills of the broker, six of workers and the last one of the driver. Half of them come within a batch and half of
# them after one, so each victim dies at either moment, and a driver takes up what another has begun. Which moment
# within a batch it is, more kills would try: the soak has them.
SHORT_KILLS = 12


@pytest.mark.timeout(900)
def test_each_record_is_there_once_when_broker_workers_and_driver_are_killed_twelve_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "rounds", SHORT_KILLS)


@pytest.mark.soak
def test_each_record_is_there_once_when_broker_workers_and_driver_are_killed_200_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "rounds", 200)


@pytest.mark.soak
def test_each_record_is_there_once_when_executors_of_a_cluster_are_killed_too_100_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "rounds", 100, uses_cluster=True)


@pytest.mark.soak
def test_each_record_is_there_once_when_any_of_three_brokers_is_killed_too_100_times(tmp_path: Path) -> None:
    run_rounds(tmp_path / "rounds", 100, brokers=3)


def test_kills_are_mostly_of_broker_and_workers_when_they_are_planned() -> None:
    planned = plan_kills(30, random.Random(1))
    assert Counter(planned) == {"driver": 2, "broker": 14, "worker": 14}
    assert planned[-1] == "driver"
    assert planned == plan_kills(30, random.Random(1)) != plan_kills(30, random.Random(2))


def test_differences_are_told_when_records_are_lost_doubled_or_strange() -> None:
    assert compare([1, 2, 3], [3, 1, 2]) == ""
    assert compare([1, 2, 3], [1, 1, 4]) == "2 lost (2, 3...), 1 doubled (1...), 1 strange (4...)"
