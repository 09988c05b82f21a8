"""The state of one partition as the controller keeps it: its replicas, the in-sync ones, and the leader."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER = -1


class PartitionState(NamedTuple):
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    # The version of the partition's node in the store. A change of the in-sync set names it, and fails if it is older.
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
