"""Partitions of topics: their replicas, offsets, and reassignments in progress."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.admin.queries.moves import moves_request
from penstock.client.move_requests import Moving, read_moves
from penstock.client.partition_fetch import EARLIEST, LATEST, offset_of
from penstock.protocol.messages.metadata import MetadataResponsePartition
from penstock.rest.errors import PARTITION_NOT_FOUND, RestError
from penstock.rest.v3.calls import Call, not_found
from penstock.rest.v3.resource_urls import ResourceUrl
from penstock.rest.v3.shapes import (
    ListMetadata,
    Partition,
    PartitionList,
    PartitionOffsets,
    Reassignment,
    ReassignmentList,
    Replica,
    ReplicaList,
)

_BOTH = "earliest_and_latest"


def _place(call: Call, topic: str, index: int) -> ResourceUrl:
    return call.cluster.under("topics", "topic", topic).under("partitions", "partition", index)


async def _find(call: Call) -> MetadataResponsePartition:
    """The partition of the path."""
    index = call.number("partition_id")
    for row in (await call.one_topic()).partitions:
        if row.partition_index == index:
            return row
    raise RestError(PARTITION_NOT_FOUND, "Partition not found.")


async def list_partitions(call: Call) -> PartitionList:
    topic = await call.one_topic()
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    return PartitionList(metadata=call.topic.listing("partitions"), data=[_partition(call, row) for row in rows])


async def get_partition(call: Call) -> Partition:
    return _partition(call, await _find(call))


def _partition(call: Call, row: MetadataResponsePartition) -> Partition:
    topic = call.path["topic_name"]
    place = _place(call, topic, row.partition_index)
    leader = None if row.leader_id < 0 else place.under("replicas", "replica", row.leader_id).related
    return Partition(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        topic_name=topic,
        partition_id=row.partition_index,
        leader=leader,
        replicas=place.relating("replicas"),
        reassignment=place.relating("reassignment"),
    )


async def get_offsets(call: Call) -> PartitionOffsets:
    offset_type = call.query.get("offset_type", _BOTH)
    if offset_type != _BOTH:
        raise RestError(400, f"Bad Request: offset_type {offset_type} is invalid, it is {_BOTH}")
    row = await _find(call)
    topic = call.path["topic_name"]
    place = _place(call, topic, row.partition_index)
    metadata = place.metadata
    metadata.link = f"{place.url}/offset"
    metadata.resource_name = f"{place.crn}/offset_type={offset_type}"
    return PartitionOffsets(
        metadata=metadata,
        cluster_id=call.cluster_id,
        topic_name=topic,
        partition_id=row.partition_index,
        earliest_offset=await offset_of(call.brokers, topic, row.partition_index, EARLIEST),
        latest_offset=await offset_of(call.brokers, topic, row.partition_index, LATEST),
    )


# ------------------------------------------------------------------------------------------------ replicas


def describe_replicas(call: Call, topic: str, row: MetadataResponsePartition) -> list[Replica]:
    place = _place(call, topic, row.partition_index)
    return [
        Replica(
            metadata=place.under("replicas", "replica", broker).metadata,
            cluster_id=call.cluster_id,
            topic_name=topic,
            partition_id=row.partition_index,
            broker_id=broker,
            is_leader=broker == row.leader_id,
            is_in_sync=broker in row.isr_nodes,
            broker=call.cluster.under("brokers", "broker", broker).related,
        )
        for broker in row.replica_nodes
    ]


async def list_replicas(call: Call) -> ReplicaList:
    topic = call.path["topic_name"]
    row = await _find(call)
    metadata = _place(call, topic, row.partition_index).listing("replicas")
    return ReplicaList(metadata=metadata, data=describe_replicas(call, topic, row))


async def get_replica(call: Call) -> Replica:
    broker = call.number("broker_id")
    for replica in describe_replicas(call, call.path["topic_name"], await _find(call)):
        if replica.broker_id == broker:
            return replica
    raise not_found(f"Replica {broker} cannot be found.")


# ------------------------------------------------------------------------------------------------ moves


async def _ask_moves(
    call: Call, places: Iterable[tuple[str, int]] | None = None
) -> Iterable[tuple[tuple[str, int], Moving]]:
    answer = await call.brokers.ask_controller(moves_request(places=places), retry=True)
    return sorted(read_moves(answer).items())


def _reassignment(call: Call, topic: str, index: int, move: Moving) -> Reassignment:
    place = _place(call, topic, index)
    return Reassignment(
        metadata=place.part("reassignment").metadata,
        cluster_id=call.cluster_id,
        topic_name=topic,
        partition_id=index,
        adding_replicas=list(move.adding),
        removing_replicas=list(move.removing),
        replicas=place.relating("replicas"),
    )


async def list_all_reassignments(call: Call) -> ReassignmentList:
    moves = await _ask_moves(call)
    metadata = call.cluster.listing("topics/-/partitions/-/reassignment")
    return ReassignmentList(metadata=metadata, data=[_reassignment(call, *place, move) for place, move in moves])


async def list_reassignments(call: Call) -> ReassignmentList:
    topic = await call.one_topic()
    moves = await _ask_moves(call, [(call.path["topic_name"], row.partition_index) for row in topic.partitions])
    metadata: ListMetadata = call.topic.listing("partitions/-/reassignment")
    return ReassignmentList(metadata=metadata, data=[_reassignment(call, *place, move) for place, move in moves])


async def get_reassignment(call: Call) -> Reassignment:
    row = await _find(call)
    wanted = call.path["topic_name"], row.partition_index
    for place, move in await _ask_moves(call, [wanted]):
        if place == wanted:
            return _reassignment(call, *place, move)
    raise not_found("No reassignment of this partition is under way.")
