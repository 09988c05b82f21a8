"""The placement of replicas: as a client asks, or round robin over the brokers, spread over racks.

The brokers are put in a row in which racks alternate. Leaders are taken from the row in turn, from a random start, so
every broker leads its share. The followers of a partition are the next brokers in the row, those in racks that the
partition has no replica in yet first. After each turn through the row the followers shift by one, so that the
leaderships of a failed broker spread over all the others.

Brokers that are registered and away, or about to stop, get replicas only where the others are too few, as followers
that are not in sync. So a topic can be created while one of its brokers restarts, and the replica is filled when the
broker comes. Kafka 4 does the same, but for one thing: where a whole rack is away, Kafka rather gives that rack a
replica than another broker that is up. Here an existing copy is better than a future copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product, zip_longest
from random import Random

from penstock.cluster.decisions.leadership import can_take_over
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.protocol.errors import ApiError, ErrorCode


def place_replicas(
    image: MetadataImage, partition_count: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first, which is up.

    Raises ApiError(INVALID_REPLICATION_FACTOR) where no broker is up, or too few brokers are registered.
    """
    registered = image.registered
    row = _alternate_racks(each for node_id, each in registered.items() if can_take_over(node_id, image.brokers))
    late = _alternate_racks(each for node_id, each in registered.items() if not can_take_over(node_id, image.brokers))
    if not row or replication_factor > len(registered):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(registered)} "
            "broker(s) are registered."
            if row
            else "All brokers are currently fenced or in controlled shutdown."
        )
        message = f"Unable to replicate the partition {replication_factor} time(s): {reason}"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    start = random.randrange(len(row))
    shift = random.randrange(len(row))
    return [
        _place(row, late, (start + partition) % len(row), shift + partition // len(row), replication_factor)
        for partition in range(partition_count)
    ]


def check_new_assignment(image: MetadataImage, partition: int, nodes: tuple[int, ...], factor: int | None) -> None:
    """The same as `check_assignment` for a new partition, which needs a leader at once."""
    check_assignment(image, nodes, factor)
    if not any(can_take_over(node, image.brokers) for node in nodes):
        message = f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{message} controlled shutdown.")


def check_assignment(image: MetadataImage, nodes: tuple[int, ...], factor: int | None = None) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) unless a partition can have its replicas on these brokers.

    `factor` is the number of replicas of the request's partitions before this partition.
    """

    def refuse(text: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {text}")

    if not nodes:
        raise refuse("an empty replica list.")
    for node in sorted(nodes):
        if node not in image.registered:
            raise refuse(f"broker {node}, but no such broker is registered.")
        if nodes.count(node) > 1:
            raise refuse(f"the broker {node} more than once.")
    if factor is not None and len(nodes) != factor:
        raise refuse(
            f"a partition with {len(nodes)} replica(s), but this is not consistent with previous partitions, which "
            f"have {factor} replica(s)."
        )


def _alternate_racks(brokers: Iterable[BrokerRegistration]) -> list[BrokerRegistration]:
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda each: each.node_id):
        racks.setdefault(broker.rack or "", []).append(broker)
    columns = zip_longest(*(racks[name] for name in sorted(racks)))
    return [broker for column in columns for broker in column if broker is not None]


def _place(
    row: list[BrokerRegistration], late: list[BrokerRegistration], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    leader = row[first]
    others = _turned(row[first + 1 :] + row[:first], shift)
    replicas = [leader]
    racks = {leader.rack}
    for brokers, is_same_rack_allowed in product((others, _turned(late, first + shift)), (False, True)):
        for broker in brokers:
            if len(replicas) == replication_factor:
                break
            if broker not in replicas and (is_same_rack_allowed or broker.rack not in racks):
                replicas.append(broker)
                racks.add(broker.rack)
    return tuple(broker.node_id for broker in replicas)


def _turned(brokers: list[BrokerRegistration], shift: int) -> list[BrokerRegistration]:
    turn = shift % len(brokers) if brokers else 0
    return brokers[turn:] + brokers[:turn]
