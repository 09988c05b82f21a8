"""Schedules in virtual time: the same ones in every run, some new ones, and a soak of many."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from proof.simulation.plan import Fault, FaultKind, Mode, Plan, draw_plan
from proof.simulation.run import run_schedules
from proof.simulation.simulation import simulate

# The first 25 have each kind of fault and of client. The first 100 have 121 pairs of the two, and the next hundred add
# four.
FIXED_SEED, FIXED_COUNT = 1, 100
NEW_SECONDS = 4.0
SOAK_COUNT = 20_000


@pytest.fixture(scope="module")
def digests() -> dict[int, str]:
    """By seed, of the schedules that earlier tests have run: a test that compares two runs makes one of them."""
    return {}


def test_every_promise_is_kept_in_the_schedules_that_are_always_run(digests: dict[int, str]) -> None:
    report = run_schedules(FIXED_SEED, FIXED_COUNT, say=print)
    digests.update(report.digests)
    assert report.is_sound, str(report)
    assert report.crashes > FIXED_COUNT
    assert report.cleanings > FIXED_COUNT
    assert report.steps > 20 * FIXED_COUNT


def test_every_promise_is_kept_in_schedules_that_were_never_run_before() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"schedules from seed {seed}")  # shown by pytest when the test fails
    ends = time.monotonic() + NEW_SECONDS
    while time.monotonic() < ends:
        report = run_schedules(seed, 1, say=print)
        assert report.is_sound, str(report)
        seed += 1


@pytest.mark.soak
def test_every_promise_is_kept_in_twenty_thousand_schedules() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"schedules from seed {seed}")
    report = run_schedules(seed, SOAK_COUNT, say=print, processes=os.cpu_count() or 1)
    print(report)
    assert report.is_sound, str(report)


def test_a_schedule_is_the_same_again_when_its_seed_is(digests: dict[int, str]) -> None:
    for seed in range(40, 46):
        before = digests.get(seed) or simulate(draw_plan(seed)).digest
        assert simulate(draw_plan(seed)).digest == before


def test_a_schedule_is_the_same_in_another_process_with_other_hashes(digests: dict[int, str]) -> None:
    seeds = range(60, 72)
    here = [digests.get(seed) or simulate(draw_plan(seed)).digest for seed in seeds]
    program = (
        "from proof.simulation.plan import draw_plan\n"
        "from proof.simulation.simulation import simulate\n"
        f"for seed in range({seeds.start}, {seeds.stop}): print(simulate(draw_plan(seed)).digest)\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    assert there.stdout.split() == here


def test_the_same_is_found_when_several_processes_share_the_schedules() -> None:
    alone, shared = run_schedules(300, 20), run_schedules(300, 20, processes=2, share=7)
    shared.seconds = alone.seconds
    assert shared == alone


def test_a_promise_that_is_broken_is_noticed_when_acknowledged_records_are_lost() -> None:
    """The same faults without what protects against them: a power cut of a broker that flushes nothing, judged as if it
    did.
    """
    plan = Plan(1, Mode.KILLED, 2_000, ("idempotent", "reader"), (Fault(1_500, FaultKind.POWER_CUT),))
    verdicts = [simulate(Plan(seed, plan.mode, plan.duration_ms, plan.clients, plan.faults)) for seed in range(4)]
    assert any("lost-write" in failure or "unseen" in failure for each in verdicts for failure in each.failures)


def test_the_command_prints_seed_and_result_when_it_is_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proof", "simulation", "--rounds", "2", "--seed", "7"],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "seed 7"
    assert lines[-1].startswith("seed 7: 2 schedules, ")
    assert lines[-1].endswith("0 failures")
