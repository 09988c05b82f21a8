"""How far moves are: what is left of each, and when the last of them will be done. Pure.

What is left is a difference of sizes on disk, of the leader's replica and of the one that is being made. It is not
exact (segments are deleted, and indexes count), and never below zero.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.admin.state.brokers import ReplicaFiles
from penstock.admin.state.partitions import PartitionState
from penstock.cli.plans.assignments import Assignment, ClusterNow, ReplicaPlace, Replicas
from penstock.core.types import TopicPartition

Sizes = Mapping[ReplicaPlace, int]  # bytes on disk


class MoveState(enum.Enum):
    DONE = "done"
    MOVING = "moving"
    ELSEWHERE = "elsewhere"  # nothing is under way, and the replicas are not those of the file
    OTHER_TARGET = "other target"  # they move, but to other brokers than those of the file
    UNKNOWN = "no such partition"


class MoveView(NamedTuple):
    key: TopicPartition
    state: MoveState
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    bytes_left: int


class Overview(NamedTuple):
    moves: tuple[MoveView, ...]  # of the file, or all that are under way
    others: int  # moves that the file does not name
    stranded: tuple[ReplicaPlace, ...] = ()  # replicas whose way to the directory of the file has ended elsewhere

    @property
    def bytes_left(self) -> int:
        return sum(move.bytes_left for move in self.moves)

    @property
    def under_way(self) -> int:
        return sum(move.state in (MoveState.MOVING, MoveState.OTHER_TARGET) for move in self.moves)

    @property
    def failed(self) -> list[MoveView]:
        """What no waiting brings about."""
        return [move for move in self.moves if move.state in (MoveState.ELSEWHERE, MoveState.UNKNOWN)]


def survey(now: ClusterNow, sizes: Sizes, wanted: Assignment | None = None) -> Overview:
    moving = now.moving
    keys = sorted(moving if wanted is None else wanted)
    moves = tuple(_view(key, now.partitions.get(key), sizes, wanted) for key in keys)
    return Overview(moves, len(moving.keys() - set(keys)))


def _view(key: TopicPartition, partition: PartitionState | None, sizes: Sizes, wanted: Assignment | None) -> MoveView:
    if partition is None:
        return MoveView(key, MoveState.UNKNOWN, (), (), (), 0)
    if partition.is_moving:
        is_same = wanted is None or partition.target == wanted[key]
        state = MoveState.MOVING if is_same else MoveState.OTHER_TARGET
    else:
        state = MoveState.DONE if wanted is None or partition.replicas == wanted[key] else MoveState.ELSEWHERE
    left = bytes_left(key, partition, sizes)
    return MoveView(key, state, partition.replicas, partition.adding, partition.removing, left)


def partition_size(key: TopicPartition, partition: PartitionState, sizes: Sizes) -> int:
    """As the leader has it, or whoever has most where nobody leads or the leader does not tell."""
    if ReplicaPlace(key, partition.leader) in sizes:
        return sizes[ReplicaPlace(key, partition.leader)]
    return max((sizes.get(ReplicaPlace(key, node), 0) for node in partition.replicas), default=0)


def bytes_left(key: TopicPartition, partition: PartitionState, sizes: Sizes) -> int:
    whole = partition_size(key, partition, sizes)
    coming = (node for node in partition.adding if node not in partition.isr)
    return sum(max(0, whole - sizes.get(ReplicaPlace(key, node), 0)) for node in coming)


def bytes_to_move(now: ClusterNow, wanted: Assignment, sizes: Sizes) -> dict[TopicPartition, int]:
    """What copying takes: the size of the partition for each replica that is not there yet."""
    volumes = {}
    for key, replicas in wanted.items():
        partition = now.partitions[key]
        new = [node for node in replicas if node not in partition.sources]
        volumes[key] = len(new) * partition_size(key, partition, sizes)
    return volumes


class Sample(NamedTuple):
    seconds: float
    bytes_left: int


def seconds_left(first: Sample, last: Sample) -> float | None:
    """At the speed between the two samples; None: nothing has moved, so nobody knows."""
    moved, took = first.bytes_left - last.bytes_left, last.seconds - first.seconds
    if last.bytes_left == 0:
        return 0.0
    return last.bytes_left * took / moved if moved > 0 and took > 0 else None


def directory_moves_under_way(
    wanted: Mapping[ReplicaPlace, str], files: Mapping[ReplicaPlace, ReplicaFiles]
) -> list[ReplicaPlace]:
    """The replicas that are on their way to another directory of their broker."""
    return sorted(place for place in wanted if place in files and files[place].future_directory is not None)


def misplaced_replicas(
    wanted: Mapping[ReplicaPlace, str], files: Mapping[ReplicaPlace, ReplicaFiles]
) -> dict[ReplicaPlace, str]:
    """The replicas that are neither in the wanted directory nor on their way there."""
    return {
        place: directory
        for place, directory in sorted(wanted.items())
        if place not in files or directory not in (files[place].directory, files[place].future_directory)
    }


class Misplaced(NamedTuple):
    to_ask: dict[ReplicaPlace, str]
    stranded: tuple[ReplicaPlace, ...]  # a broker began to move them, and does not any more


def sort_misplaced(
    wanted: Mapping[ReplicaPlace, str], files: Mapping[ReplicaPlace, ReplicaFiles], begun: AbstractSet[ReplicaPlace]
) -> Misplaced:
    """A move that has begun and ended elsewhere has failed: asking for it again would copy everything once more, and
    fail again. A replica that nobody tells of may have got lost with its broker, so it is asked for."""
    misplaced = misplaced_replicas(wanted, files)
    stranded = tuple(place for place in misplaced if place in begun and place in files)
    return Misplaced({place: path for place, path in misplaced.items() if place not in stranded}, stranded)


def total_of(sizes: Sizes, brokers: Iterable[int]) -> dict[int, int]:
    totals = dict.fromkeys(brokers, 0)
    for place, size in sizes.items():
        if place.broker in totals:
            totals[place.broker] += size
    return totals
