"""Schedules of three brokers in virtual time: the same ones in every run, and a soak of many."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import pytest

from proof.simulation.cluster.plan import draw_cluster_plan
from proof.simulation.cluster.simulation import simulate_cluster
from proof.simulation.plan import FOLLOWER, Fault, FaultKind, Mode, Plan
from proof.simulation.run import plan_of, run_schedules
from proof.simulation.simulation import simulate
from tests.integration.cluster.planted import refuse_what_was_appended

BROKERS = 3
# In shares, each of which ends within the limit of a test also on a busy machine. With four brokers replicas can move
# to where none was.
# The first 50 have each kind of fault and of client. The first 75 have 353 pairs of the two, and the next hundred would
# add 51 pairs for twice the time: the soak, which draws thousands, has those.
FIXED_SEEDS, SHARE = range(1, 76), 15
MORE_BROKERS, SHARE_OF_MORE = 4, 12
SOAK_COUNT = 10_000


@pytest.fixture(scope="module")
def digests() -> dict[int, str]:
    """By seed, of the schedules that earlier tests have run: a test that compares two runs makes one of them."""
    return {}


@pytest.mark.parametrize("first", FIXED_SEEDS[::SHARE])
def test_every_promise_of_a_cluster_is_kept_in_the_schedules_that_are_always_run(
    first: int, digests: dict[int, str]
) -> None:
    report = run_schedules(first, SHARE, say=print, brokers=BROKERS)
    digests.update(report.digests)
    assert report.is_sound, str(report)
    assert report.crashes > SHARE / 2
    assert report.steps > 20 * SHARE


def test_every_promise_is_kept_when_there_are_more_brokers_than_replicas() -> None:
    report = run_schedules(1, SHARE_OF_MORE, say=print, brokers=MORE_BROKERS)
    assert report.is_sound, str(report)
    assert report.crashes > SHARE_OF_MORE / 2


def test_every_fault_among_several_machines_is_drawn() -> None:
    drawn = {fault.kind for seed in range(600) for fault in draw_cluster_plan(seed, BROKERS).faults}
    assert set(FaultKind) - drawn == {FaultKind.POWER_CUT_OF_ALL}


@pytest.mark.soak
def test_every_promise_of_a_cluster_is_kept_in_ten_thousand_schedules() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"schedules from seed {seed}")
    for brokers, count in ((BROKERS, SOAK_COUNT), (MORE_BROKERS, SOAK_COUNT // 5)):
        report = run_schedules(seed, count, say=print, brokers=brokers, processes=os.cpu_count() or 1)
        print(report)
        assert report.is_sound, str(report)


def test_a_schedule_of_a_cluster_is_the_same_in_another_process_with_other_hashes(digests: dict[int, str]) -> None:
    seeds = range(70, 75)
    here = [digests.get(seed) or simulate(plan_of(seed, BROKERS)).digest for seed in seeds]
    program = (
        "from proof.simulation.run import plan_of\n"
        "from proof.simulation.simulation import simulate\n"
        f"for seed in range({seeds.start}, {seeds.stop}): print(simulate(plan_of(seed, {BROKERS})).digest)\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    assert there.stdout.split() == here


def test_a_plan_of_a_cluster_is_code_that_makes_it_when_printed() -> None:
    plan = plan_of(7, BROKERS)
    names = {"Plan": Plan, "Fault": Fault, "Mode": Mode, "FaultKind": FaultKind}
    assert eval(repr(plan), {"__builtins__": {}}, names) == plan


def test_lost_records_are_noticed_when_the_power_of_all_machines_fails() -> None:
    """The same checks without what protects: nothing is flushed, and no page cache is left that has the records."""
    faults = tuple(Fault(2_000, FaultKind.POWER_CUT_OF_ALL, 0, (place,)) for place in range(BROKERS))
    plans = [Plan(seed, Mode.REPLICATED, 3_000, ("idempotent", "reader"), faults, BROKERS) for seed in range(4)]
    failures = [failure for plan in plans for failure in simulate(plan).failures]
    assert any("lost-write" in failure or "unseen" in failure for failure in failures)


def test_a_record_that_comes_twice_is_noticed_when_a_suspended_leader_refuses_what_it_has_appended() -> None:
    """Leaders stop and lead again in the same epoch. Nine of ten schedules show what a client makes of it: the first
    that does is enough.
    """
    faults = (Fault(500, FaultKind.STORE_OUTAGE, 8_000, (0,)), Fault(1_000, FaultKind.PAUSE, 3_500, (FOLLOWER,)))
    clients = ("librdkafka",) * 4
    plans = (Plan(seed, Mode.REPLICATED, 6_000, clients, faults, BROKERS) for seed in range(2, 8))
    failures = (failure for plan in plans for failure in simulate_cluster(plan, refuse_what_was_appended).failures)
    doubled = next((failure for failure in failures if failure.startswith("duplicate: ")), "")
    first, *later = re.findall(r"at offset \d+ as sequence \d+ of (epoch \d+) of producer \d+", doubled)
    assert later
    assert first not in later
