"""Brokers, topics and partitions, from Metadata."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.partitions import NO_LEADER, PartitionState, TopicState
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from penstock.client.move_requests import Moving, Partition

_NO_MOVES: Mapping[Partition, Moving] = MappingProxyType({})


def read_brokers(metadata: MetadataResponse) -> dict[int, BrokerState]:
    rows = sorted(metadata.brokers, key=lambda row: row.node_id)
    return {row.node_id: BrokerState(row.node_id, row.host, row.port, row.rack or None) for row in rows}


def read_controller(metadata: MetadataResponse) -> int | None:
    """None where the broker that is named is not there."""
    present = {row.node_id for row in metadata.brokers}
    return metadata.controller_id if metadata.controller_id in present else None


def read_topics(metadata: MetadataResponse, moves: Mapping[Partition, Moving] = _NO_MOVES) -> dict[str, TopicState]:
    rows = sorted(metadata.topics, key=lambda row: row.name or "")
    return {row.name or "": read_topic(row, moves) for row in rows}


def read_topic(row: MetadataResponseTopic, moves: Mapping[Partition, Moving] = _NO_MOVES) -> TopicState:
    name = row.name or ""
    partitions = []
    for each in sorted(row.partitions, key=lambda each: each.partition_index):
        move = moves.get((name, each.partition_index))
        partitions.append(
            PartitionState(
                name,
                each.partition_index,
                each.leader_id if each.leader_id >= 0 else NO_LEADER,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                () if move is None else move.adding,
                () if move is None else move.removing,
                tuple(each.offline_replicas),
                each.leader_epoch,
            )
        )
    return TopicState(name, row.topic_id, row.is_internal, tuple(partitions))


def explain_missing_leader(place: TopicPartition, metadata: MetadataResponse) -> ApiError:
    """Why no broker can be asked about a partition."""
    row = next((row for row in metadata.topics if row.name == place.topic), None)
    if row is not None and row.error_code != ErrorCode.NONE:
        return error_of(row.error_code)
    is_there = row is not None and any(each.partition_index == place.partition for each in row.partitions)
    return error_of(ErrorCode.LEADER_NOT_AVAILABLE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
