from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from proof.simulation.operating.operator import DRAWS
from proof.simulation.operating.requests import FEWEST_REPLICAS, Replicas, without

NODES = range(5)
replica_sets = st.lists(st.sampled_from(NODES), min_size=FEWEST_REPLICAS, unique=True).map(tuple)


@given(replica_sets, st.sampled_from(list(DRAWS)), st.integers())
def test_every_target_of_an_operator_has_enough_replicas_and_none_twice(
    replicas: Replicas, draw: object, seed: int
) -> None:
    assert callable(draw)
    target = draw(replicas, NODES, random.Random(seed))
    assert len(target) >= FEWEST_REPLICAS
    assert len(set(target)) == len(target)
    assert set(target) <= set(NODES)


@given(replica_sets, st.sampled_from(NODES))
def test_a_drained_broker_has_no_replica_and_another_one_takes_its_place_when_there_is_one(
    replicas: Replicas, node: int
) -> None:
    target = without(replicas, node, NODES)
    assert node not in target
    assert len(set(target)) == len(target) == min(len(replicas), len(NODES) - 1)
