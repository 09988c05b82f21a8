"""The state of one partition as the controller keeps it: who has it, who is in sync, who leads."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER = -1


class PartitionState(NamedTuple):
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    # The version of the partition's node in the store, which an in-sync change is compared against.
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
