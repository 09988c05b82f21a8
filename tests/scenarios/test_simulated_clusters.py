"""Schedules of three brokers that once found a bug; each says which."""

from __future__ import annotations

import pytest

from penstock.proof.simulation.plan import Fault, FaultKind, Mode, Plan
from penstock.proof.simulation.run import explain
from penstock.proof.simulation.simulation import simulate

SCENARIOS = {
    # The power failed after a roll and took the whole segment before it, but spared the next one. Recovery took that
    # for a hole that compaction had made, the replica joined the in-sync set, was the preferred leader and lost the
    # committed offsets of a group.
    "a compacted replica joined with a hole that a power cut had made": Plan(
        32,
        Mode.REPLICATED,
        2_500,
        ("idempotent", "committer", "consumer", "reader"),
        (Fault(2_084, FaultKind.POWER_CUT, 0, (1,)),),
        brokers=3,
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_promise_of_a_cluster_holds_that_this_schedule_once_broke(name: str) -> None:
    verdict = simulate(SCENARIOS[name])
    assert verdict.is_sound, explain(verdict)
