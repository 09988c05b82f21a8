"""Pipelines under kill -9; see proof.pipeline.rounds for what runs and what is checked."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from proof.pipeline.check import compare
from proof.pipeline.rounds import Kill, PipelineRounds, plan_kills

VICTIMS = {"broker", "worker", "workers", "driver"}


def run_rounds(directory: Path, kills: int, *, uses_cluster: bool = False, brokers: int = 1) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pipeline rounds with seed {seed}")  # shown by pytest when the test fails
    report = PipelineRounds(directory, kills, seed, uses_cluster, say=print, brokers=brokers).run()
    print(report)
    assert report.is_sound, str(report)
    assert sum(report.kills.values()) == kills
    assert set(report.kills) == VICTIMS
    assert report.batches > kills // 4


# The fewest that have every kind of kill: two of the broker and two of workers, one of each when a batch has ended and
# one whatever was reached, and the last one of the driver, so that another takes up what it has begun. Which moment
# within a batch it is, more kills would try: the soak has them.
SHORT_KILLS = 5


@pytest.mark.timeout(900)
def test_each_record_is_there_once_when_broker_workers_and_driver_are_killed_five_times(tmp_path: Path) -> None:
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
    assert Counter(kill.victim for kill in planned) == {"driver": 2, "broker": 14, "worker": 7, "workers": 7}
    assert {Kill(victim, moment) for victim in VICTIMS for moment in (True, False)} == set(planned)
    assert planned[-1].victim == "driver"
    assert planned == plan_kills(30, random.Random(1)) != plan_kills(30, random.Random(2))


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_of_kill_comes_when_there_are_as_few_as_in_the_short_rounds(seed: int) -> None:
    planned = plan_kills(SHORT_KILLS, random.Random(seed))
    assert {kill.victim for kill in planned} == VICTIMS
    assert {Kill("broker", True), Kill("broker", False)} < set(planned)
    assert {kill.is_after_batch for kill in planned if kill.victim in ("worker", "workers")} == {True, False}


def test_differences_are_told_when_records_are_lost_doubled_or_strange() -> None:
    assert compare([1, 2, 3], [3, 1, 2]) == ""
    assert compare([1, 2, 3], [1, 1, 4]) == "2 lost (2, 3...), 1 doubled (1...), 1 strange (4...)"
