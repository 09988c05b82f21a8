"""The progress of a group: its committed offsets, and the end offsets of its partitions."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.admin.queries.groups import commits_request, read_group_commits
from penstock.admin.queries.offsets import LAST, offsets_request, read_offsets
from penstock.admin.queries.slices import by_topic
from penstock.admin.queries.topics import read_topics
from penstock.admin.state.partitions import NO_LEADER
from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.core.types import TopicPartition
from penstock.protocol.messages.offset_fetch import OffsetFetchResponse
from penstock.rest.v3.calls import check


async def committed_offsets(brokers: Brokers, group_id: str) -> dict[TopicPartition, int]:
    """Of every topic. Raises ApiError."""
    request = commits_request([group_id])
    answer: OffsetFetchResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group_id, request, retry=True)
    row = answer.groups[0] if answer.groups else answer  # before version 8
    check(row.error_code)
    return {place: each.offset for place, each in read_group_commits(row).items()}


async def end_offsets(brokers: Brokers, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The last stable offsets: the end for a consumer of committed records. One request for each broker that leads;
    leaves out partitions without a leader, or deleted ones.
    """
    wanted = set(places)
    metadata = await brokers.metadata(sorted({place.topic for place in wanted}))
    led: dict[int, list[TopicPartition]] = {}
    for topic in read_topics(metadata).values():
        for each in topic.partitions:
            if each.leader != NO_LEADER and each.key in wanted:
                led.setdefault(each.leader, []).append(each.key)
    found: dict[TopicPartition, int] = {}
    for leader, own in led.items():
        request = offsets_request(by_topic(own), LAST, is_committed=True)
        found |= read_offsets(await brokers.ask_node(leader, request, retry=True)).found
    return found
