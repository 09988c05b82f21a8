"""Schedules of three brokers that once found a bug; each says which."""

from __future__ import annotations

import pytest

from proof.simulation.plan import Fault, FaultKind, Mode, Plan
from proof.simulation.run import explain
from proof.simulation.simulation import simulate

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
    # The coordinator was cut off from the store and from the other brokers, and had stopped leading its partition. It
    # answered OffsetFetch from memory, and did not know the marker that its successor had acknowledged.
    "a suspended coordinator told an old marker, so that a repeated batch was written twice": Plan(
        43,
        Mode.REPLICATED,
        13_000,
        ("repeater",),
        (
            Fault(500, FaultKind.CUT, 11_000, (0, 1)),
            Fault(500, FaultKind.CUT, 11_000, (0, 2)),
            Fault(500, FaultKind.STORE_CUT, 11_000, (0,)),
        ),
        brokers=3,
    ),
    # The coordinator stood still. It answered what had come meanwhile before it looked at its leases.
    "a coordinator that went on told an old marker, so that a repeated batch was written twice": Plan(
        1,
        Mode.REPLICATED,
        9_000,
        ("repeater",),
        (Fault(500, FaultKind.PAUSE, 4_000, (0,)), Fault(5_500, FaultKind.PAUSE, 4_000, (1,))),
        brokers=3,
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_promise_of_a_cluster_holds_that_this_schedule_once_broke(name: str) -> None:
    verdict = simulate(SCENARIOS[name])
    assert verdict.is_sound, explain(verdict)
