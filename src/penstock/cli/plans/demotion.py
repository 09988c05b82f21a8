"""Moving leadership away from a broker without moving a record: the broker becomes the last of the replicas. Pure.

The first replica is the preferred leader, so nothing gives the broker its partitions back while it is the last one.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.cli.plans.assignments import ClusterNow, Replicas
from penstock.core.types import TopicPartition


class Demotion(NamedTuple):
    wanted: dict[TopicPartition, Replicas]
    before: dict[TopicPartition, Replicas]  # what brings everything back
    led: tuple[TopicPartition, ...]  # to be led by somebody else
    alone: tuple[TopicPartition, ...]  # nobody else has them: they stay


def plan_demotion(now: ClusterNow, broker: int) -> Demotion:
    wanted, led, alone = {}, [], []
    for key, partition in sorted(now.partitions.items()):
        target = partition.target
        if broker not in target:
            continue
        if len(target) == 1:
            alone.append(key)
            continue
        if target[-1] != broker:
            wanted[key] = (*(node for node in target if node != broker), broker)
        if partition.leader == broker:
            led.append(key)
    before = {key: now.partitions[key].target for key in wanted}
    return Demotion(wanted, before, tuple(led), tuple(alone))
