"""Committed offsets of a group: fetched from and written to its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.admin.changes.groups import NO_GENERATION, commit_request
from penstock.admin.queries.groups import Commits, commits_request, read_group_commits
from penstock.admin.queries.refusals import check
from penstock.admin.state.groups import CommittedOffset
from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.core.types import TopicPartition
from penstock.protocol.messages.offset_commit import OffsetCommitResponse
from penstock.protocol.messages.offset_fetch import OffsetFetchResponse


class AsMember(NamedTuple):
    """The identity in a request to a group; the defaults are of a consumer that assigns its own partitions."""

    generation_id: int = NO_GENERATION
    member_id: str = ""


NO_MEMBER = AsMember()


async def fetch_committed(brokers: Brokers, group: str, partitions: Iterable[TopicPartition]) -> Commits:
    """Without the partitions that have no committed offset. Raises ApiError and OSError."""
    request = commits_request([group], partitions, is_stable=True)
    response: OffsetFetchResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group, request, retry=True)
    answered = response.groups[0] if response.groups else response  # a list since version 8
    check(answered.error_code)
    for topic in answered.topics:
        for each in topic.partitions:
            check(each.error_code)
    return read_group_commits(answered)


async def commit(
    brokers: Brokers, group: str, offsets: Mapping[TopicPartition, CommittedOffset], member: AsMember = NO_MEMBER
) -> None:
    """Raises ApiError, that of the first refused partition, and OSError."""
    if not offsets:
        return
    request = commit_request(group, offsets, generation_id=member.generation_id, member_id=member.member_id)
    response: OffsetCommitResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group, request, retry=True)
    for topic in response.topics:
        for each in topic.partitions:
            check(each.error_code)
