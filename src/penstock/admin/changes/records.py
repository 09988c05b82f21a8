"""Records deleted from the beginning of partitions. The leader of each partition decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.admin.changes.outcomes import TIMEOUT_MS, answer_or_error, ask_each_node
from penstock.admin.queries.refusals import PartitionRefusals
from penstock.admin.queries.slices import PARTITIONS_AT_ONCE, by_topic, cut
from penstock.admin.queries.topics import explain_missing_leader, read_brokers, read_topics
from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


async def delete_records(brokers: Brokers, before: Mapping[TopicPartition, int]) -> PartitionRefusals:
    """The offset that each partition is to begin with, -1 for its high watermark. Leaders are asked in slices; a
    partition whose leader moves meanwhile is followed by itself.
    """
    metadata = await brokers.metadata(sorted({place.topic for place in before}))
    present = read_brokers(metadata)
    leaders = {
        each.key: each.leader
        for topic in read_topics(metadata).values()
        for each in topic.partitions
        if not each.is_offline(present)
    }
    refused = {place: explain_missing_leader(place, metadata) for place in before if place not in leaders}
    by_node: dict[int, list[TopicPartition]] = {}
    for place in sorted(before.keys() & leaders.keys()):
        by_node.setdefault(leaders[place], []).append(place)
    requests = {
        node_id: [_request(some, before) for some in cut(places, PARTITIONS_AT_ONCE)]
        for node_id, places in by_node.items()
    }
    for _, request, answer in await ask_each_node(brokers, requests):
        refused |= _refusals(request, answer)
    moved = [place for place, error in refused.items() if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER]
    for place in moved:
        del refused[place]
        brokers.forget_leader(*place)
        request = _request([place], before)
        refused |= _refusals(request, await answer_or_error(brokers.ask_leader(*place, request, retry=True)))
    return refused


def _request(places: Iterable[TopicPartition], before: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    topics = [
        DeleteRecordsTopic(
            name=topic,
            partitions=[
                DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(places).items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def _refusals(request: DeleteRecordsRequest, answer: DeleteRecordsResponse | ApiError) -> PartitionRefusals:
    if isinstance(answer, ApiError):
        return {
            TopicPartition(topic.name, row.partition_index): answer
            for topic in request.topics
            for row in topic.partitions
        }
    return {
        TopicPartition(topic.name, row.partition_index): error_of(row.error_code)
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code != ErrorCode.NONE
    }
