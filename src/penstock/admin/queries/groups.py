"""Groups of every kind: listed by every broker, described and read by the one that coordinates them.

A broker lists the groups that it coordinates, so no coordinator has to be looked for. Groups of KIP-848 answer to
ConsumerGroupDescribe, classic ones to DescribeGroups; of kinds that are not known here the list is all that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.admin.queries.slices import COMMITS_AT_ONCE, DESCRIBED_AT_ONCE, by_topic, cut
from penstock.admin.state.groups import (
    CLASSIC,
    CONSUMER,
    DEAD,
    KNOWN_KINDS,
    CommittedOffset,
    GroupState,
    MemberState,
)
from penstock.admin.state.parts import Failure, Partial
from penstock.client.consumer_protocol import CONSUMER as CONSUMER_TYPE
from penstock.client.consumer_protocol import read_assignment
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_describe import DescribedGroup as NewGroup
from penstock.protocol.messages.consumer_group_describe import Member as NewMember
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

if TYPE_CHECKING:
    from penstock.admin.look import Look

Groups = dict[str, GroupState]
Commits = dict[TopicPartition, CommittedOffset]

_CLASSIC_MEMBER = 0
# From this version on OffsetFetch takes many groups.
_MANY_GROUPS = 8


async def list_groups(look: Look, nodes: Iterable[int]) -> Partial[Groups]:
    """The groups that the caller may describe, of these brokers."""
    answers, failures = await look.ask_each("groups", ((node_id, ListGroupsRequest()) for node_id in nodes))
    found: Groups = {}
    refused = []
    for node_id, _, answer in answers:
        if answer.error_code != ErrorCode.NONE:
            refused.append(Failure.of("groups", error_of(answer.error_code), node_id))
        for row in answer.groups:
            kind = row.group_type.lower() or CLASSIC  # brokers before Kafka 3.8 have no other
            found[row.group_id] = GroupState(row.group_id, kind, row.group_state, row.protocol_type, node_id)
    return Partial(dict(sorted(found.items())), (*failures, *refused))


def explain_missing_group(failures: Iterable[Failure]) -> ApiError:
    """Why a group is in no list: a broker that did not tell its own may have it."""
    silent = next((each for each in failures if each.node_id is not None), None)
    if silent is None:
        return error_of(ErrorCode.GROUP_ID_NOT_FOUND)
    return ApiError(silent.code or ErrorCode.NETWORK_EXCEPTION, f"broker {silent.node_id}: {silent.reason}")


async def describe_groups(look: Look, groups: Iterable[GroupState]) -> Partial[Groups]:
    """These groups with their members, as far as their kind is known."""
    listed = {group.group_id: group for group in groups}
    requests: list[tuple[int, Message]] = []
    for (node_id, kind), ids in _by_coordinator(listed.values()).items():
        for some in cut(ids, DESCRIBED_AT_ONCE):
            is_new = kind == CONSUMER
            new, classic = ConsumerGroupDescribeRequest(group_ids=list(some)), DescribeGroupsRequest(groups=list(some))
            requests.append((node_id, new if is_new else classic))
    answers, failures = await look.ask_each("members", requests)
    found: Groups = {}
    refused = []
    for node_id, _, answer in answers:
        for row in answer.groups:
            if row.error_code != ErrorCode.NONE:
                refused.append(_refusal(row.group_id, row.error_code, row.error_message))
                continue
            is_new = isinstance(row, NewGroup)
            described = read_new_group(row, node_id) if is_new else read_classic_group(row, node_id)
            if described.state != DEAD:
                found[row.group_id] = described
    return Partial(found, (*failures, *refused))


async def read_commits(
    look: Look, groups: Iterable[GroupState], *, is_stable: bool = False
) -> Partial[dict[str, Commits]]:
    """What these groups have committed, of every topic. With `is_stable` partitions with a commit in an open
    transaction are left out.
    """
    requests: list[tuple[int, Message]] = []
    failures: list[Failure] = []
    for (node_id, _), ids in _by_coordinator(groups).items():
        try:
            version = (await look.connect(node_id)).version_of(OffsetFetchRequest())
        except (OSError, ApiError) as error:
            failures.append(Failure.of("commits", error, node_id))
            continue
        size = COMMITS_AT_ONCE if version >= _MANY_GROUPS else 1
        requests += [(node_id, commits_request(some, is_stable=is_stable)) for some in cut(ids, size)]
    answers, silent = await look.ask_each("commits", requests)
    found: dict[str, Commits] = {}
    for _, request, answer in answers:
        assert isinstance(request, OffsetFetchRequest)
        rows = answer.groups or [answer]  # before version 8 the answer is about one group
        for asked, row in zip(request.groups, rows, strict=True):
            if row.error_code != ErrorCode.NONE:
                failures.append(_refusal(asked.group_id, row.error_code))
                continue
            found[asked.group_id] = read_group_commits(row)
    return Partial(found, (*silent, *failures))


def join_groups(listed: Groups, described: Groups, commits: Mapping[str, Commits]) -> Groups:
    return {
        group_id: described.get(group_id, group)._replace(committed=commits.get(group_id))
        for group_id, group in listed.items()
    }


def _by_coordinator(groups: Iterable[GroupState]) -> dict[tuple[int, str], list[str]]:
    """Ids of groups whose kind is known, by broker and kind."""
    found: dict[tuple[int, str], list[str]] = {}
    for group in groups:
        if group.coordinator is not None and group.kind in KNOWN_KINDS:
            found.setdefault((group.coordinator, group.kind), []).append(group.group_id)
    return found


def commits_request(
    group_ids: Sequence[str], places: Iterable[TopicPartition] | None = None, *, is_stable: bool = False
) -> OffsetFetchRequest:
    """Of these partitions, or of all. In the form of both generations: a version has the fields that it knows."""
    rows = None if places is None else by_topic(sorted(places))
    of_one = of_many = None
    if rows is not None:
        of_one = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in rows.items()]
        of_many = [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in rows.items()]
    groups = [OffsetFetchRequestGroup(group_id=each, topics=of_many) for each in group_ids]
    return OffsetFetchRequest(group_id=group_ids[0], topics=of_one, groups=groups, require_stable=is_stable)


def read_group_commits(row: OffsetFetchResponse | OffsetFetchResponseGroup) -> Commits:
    """Before version 8 the answer as a whole is about one group."""
    return {
        TopicPartition(topic.name, each.partition_index): CommittedOffset(
            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
        )
        for topic in row.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE and each.committed_offset >= 0
    }


def _refusal(group_id: str, code: int, message: str | None = None) -> Failure:
    return Failure.of(f"group {group_id}", error_of(code, message or None))


# ------------------------------------------------------------------------------------ answers


def read_classic_group(row: DescribedGroup, coordinator: int | None) -> GroupState:
    members = tuple(sorted(_classic_member(row, member) for member in row.members))
    return GroupState(
        row.group_id, CLASSIC, row.group_state, row.protocol_type, coordinator, row.protocol_data, members
    )


def _classic_member(row: DescribedGroup, member: DescribedGroupMember) -> MemberState:
    assigned: list[TopicPartition] = []
    if row.protocol_type == CONSUMER_TYPE:
        try:
            assigned = sorted(read_assignment(member.member_assignment))
        except ApiError:
            assigned = []  # bytes of a client that does not keep to the protocol
    return MemberState(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        tuple(assigned),
        is_classic=True,
    )


def read_new_group(row: NewGroup, coordinator: int | None) -> GroupState:
    members = tuple(sorted(map(_new_member, row.members)))
    return GroupState(row.group_id, CONSUMER, row.group_state, CONSUMER_TYPE, coordinator, row.assignor_name, members)


def _new_member(member: NewMember) -> MemberState:
    topics = () if member.assignment is None else member.assignment.topic_partitions
    assigned = sorted(TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions)
    return MemberState(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(assigned),
        is_classic=member.member_type == _CLASSIC_MEMBER,
    )
