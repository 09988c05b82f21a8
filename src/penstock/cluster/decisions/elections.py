"""The controller's decisions about leader elections: ElectLeaders.

A partition has one replica until there is replication, so its leader is the preferred one or there is none. Nothing is
ever elected yet: the answer says whether an election is needed and, where it is, that no replica can take over.
"""

from __future__ import annotations

import enum

from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState
from penstock.protocol.errors import ErrorCode


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def decide_election(image: MetadataImage, topic: str, index: int, election_type: ElectionType) -> ErrorCode:
    """What a client is told that asks for an election in this partition."""
    partition = image.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not _is_needed(partition, election_type):
        return ErrorCode.ELECTION_NOT_NEEDED
    if election_type is ElectionType.PREFERRED:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def _is_needed(partition: PartitionState, election_type: ElectionType) -> bool:
    if election_type is ElectionType.PREFERRED:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER
