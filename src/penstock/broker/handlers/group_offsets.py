"""Committed offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from penstock.broker.authorizer import Authorizer, Operation, ResourceType
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work, collect
from penstock.cluster.metadata import Metadata
from penstock.core.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.groups import requests, results
from penstock.groups.operations.table import COMMIT_OFFSETS, DELETE_OFFSETS, FETCH_OFFSETS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_FIRST_WITH_TOPIC_IDS = 10
_FIRST_WITH_GROUPS = 8
_FIRST_COMMIT_WITH_GROUP_NOT_FOUND = 9
_FIRST_WITH_GROUP_ERROR = 2
# The number of offsets that a commit handles without slices: some 0.5 ms.
FEW_OFFSETS = 50

# The name (as far as known) and id of a topic, and the error for all its partitions.
_Topic = tuple[str, TopicId, ErrorCode]


class GroupOffsetPort(Protocol):
    """The parts of the broker that the handlers of committed offsets use."""

    authorizer: Authorizer
    groups: GroupRuntime
    metadata: Metadata
    partitions: Partitions
    slices: Slices


def _resolve(
    broker: GroupOffsetPort, context: RequestContext, operation: Operation, name: str, topic_id: TopicId
) -> _Topic:
    """Resolves a topic of the request. A commit needs an existing topic; the id tells its offsets from offsets of a
    later topic of the same name.
    """
    if context.api_version >= _FIRST_WITH_TOPIC_IDS:
        known = broker.partitions.topic_name(topic_id)
        if known is None:
            return "", topic_id, ErrorCode.UNKNOWN_TOPIC_ID
        name = known
    if not broker.authorizer.is_allowed(context, operation, ResourceType.TOPIC, name):
        return name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, topic_id, ErrorCode.NONE


# ---------------------------------------------------------------------------------------------------- OffsetCommit


async def offset_commit(
    broker: GroupOffsetPort, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Records the positions of a group. Lookups of topics run in slices. All offsets, however many, are one decision of
    the coordinator and one batch: the coordinator records all of them or none.

    Versions from 5 on have no retention time; versions from 7 on may name a static member. From version 9 on a member
    of the consumer protocol may commit, and a group that does not exist is an error. From version 10 on topics have ids
    instead of names.
    """
    allowed = broker.authorizer.is_allowed(context, Operation.READ, ResourceType.GROUP, request.group_id)
    if len(request.topics) == 1 and len(request.topics[0].partitions) <= FEW_OFFSETS:
        return await _commit_few(broker, context, request, request.topics[0], allowed)
    resolved = await broker.slices.run(
        collect(_resolve(broker, context, Operation.READ, topic.name, topic.topic_id) for topic in request.topics)
    )
    errors: dict[tuple[str, int], ErrorCode] = {}
    if allowed:
        looked_up = collect(_offsets_to_commit(broker, request.topics, resolved, errors))
        offsets = [offset for offset in await broker.slices.run(looked_up) if offset is not None]
        if offsets or not request.topics:
            await _commit(broker, context, request, offsets, errors)
    response = OffsetCommitResponse()
    # The outer loop yields too: the inner loop alone would never yield where every topic has one partition.
    async for topic, (name, topic_id, refusal) in broker.slices.each(zip(request.topics, resolved, strict=True)):
        refusal = refusal if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic_id)
        response.topics.append(answer)
        async for asked in broker.slices.each(topic.partitions):
            code = refusal or errors[name, asked.partition_index]
            answer.partitions.append(
                OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=code)
            )
    return response


async def _commit_few(
    broker: GroupOffsetPort,
    context: RequestContext,
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    allowed: bool,
) -> OffsetCommitResponse:
    """The commit of a consumer with one topic: too small for slices, which would cost 10 us more."""
    resolved = _resolve(broker, context, Operation.READ, topic.name, topic.topic_id)
    name, topic_id, refusal = resolved
    errors: dict[tuple[str, int], ErrorCode] = {}
    if allowed:
        looked_up = _offsets_to_commit(broker, (topic,), (resolved,), errors)
        offsets = [offset for offset in looked_up if offset is not None]
        if offsets:
            await _commit(broker, context, request, offsets, errors)
    else:
        refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
    answers = [
        OffsetCommitResponsePartition(
            partition_index=asked.partition_index, error_code=refusal or errors[name, asked.partition_index]
        )
        for asked in topic.partitions
    ]
    answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic_id, partitions=answers)
    return OffsetCommitResponse(topics=[answer])


async def _commit(
    broker: GroupOffsetPort,
    context: RequestContext,
    request: OffsetCommitRequest,
    offsets: Sequence[requests.OffsetToCommit],
    errors: dict[tuple[str, int], ErrorCode],
) -> None:
    """Records offsets, all in one batch, and notes the result of each."""
    commit = _commit_request(context, request, offsets)
    if len(offsets) <= FEW_OFFSETS:
        result = await broker.groups.submit(COMMIT_OFFSETS, commit)
        for name, index, error in result.partitions:
            errors[name, index] = error
            broker.groups.metrics.offset_commits += not error
        return
    result = await broker.groups.submit_in_slices(COMMIT_OFFSETS, commit)
    async for name, index, error in broker.slices.each(result.partitions):
        errors[name, index] = error
        broker.groups.metrics.offset_commits += not error


def _commit_request(
    context: RequestContext, request: OffsetCommitRequest, offsets: Sequence[requests.OffsetToCommit]
) -> requests.OffsetCommitRequest:
    return requests.OffsetCommitRequest(
        group_id=request.group_id,
        offsets=offsets,
        member_id=request.member_id,
        generation_id=request.generation_id_or_member_epoch,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        accepts_group_id_not_found=context.api_version >= _FIRST_COMMIT_WITH_GROUP_NOT_FOUND,
    )


def _offsets_to_commit(
    broker: GroupOffsetPort,
    topics: Iterable[OffsetCommitRequestTopic],
    resolved: Iterable[_Topic],
    errors: dict[tuple[str, int], ErrorCode],
) -> Iterable[requests.OffsetToCommit | None]:
    """Yields the offsets to commit, None in place of a refused offset; the error of a refused offset goes to
    `errors`.
    """
    for topic, (name, topic_id, refusal) in zip(topics, resolved, strict=True):
        yield None
        if refusal:
            continue
        for asked in topic.partitions:
            if broker.metadata.image.partition(name, asked.partition_index) is None:
                errors[name, asked.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                yield None
                continue
            yield requests.OffsetToCommit(
                name,
                asked.partition_index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata,
                topic_id,
            )


# ---------------------------------------------------------------------------------------------------- OffsetFetch


async def offset_fetch(
    broker: GroupOffsetPort, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answers the committed offsets of groups. Only durable offsets are answered, as far as flush.messages asks for
    durability.

    From version 2 on null topics stand for all topics, and the group has an error of its own. From version 7 on a
    client may ask for stable offsets alone. From version 8 on a request asks for several groups, from version 9 on as a
    member of a group. From version 10 on topics have ids instead of names.
    """
    if context.api_version >= _FIRST_WITH_GROUPS:
        asked = broker.slices.each(request.groups)
        groups = [await _fetch_group(broker, context, group, request.require_stable) async for group in asked]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    single = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    answer = await _fetch_group(broker, context, single, request.require_stable)
    return await broker.slices.run(_as_single(answer, context.api_version, single))


def _as_single(
    answer: OffsetFetchResponseGroup, version: int, asked: OffsetFetchRequestGroup
) -> Work[OffsetFetchResponse]:
    """Versions below 8 ask for one group; below version 2 only the partitions have room for the group's error."""
    topics = answer.topics
    if answer.error_code and version < _FIRST_WITH_GROUP_ERROR:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_no_offset(index, answer.error_code) for index in topic.partition_indexes]
            )
            for topic in asked.topics or ()
        ]
    response = OffsetFetchResponse(error_code=answer.error_code)
    for topic in topics:
        partitions = yield from collect(
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        )
        response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        yield
    return response


def _no_offset(index: int, error_code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=error_code)


async def _fetch_group(
    broker: GroupOffsetPort, context: RequestContext, asked: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=asked.group_id)
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        answer.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return answer
    refused: list[OffsetFetchResponseTopics] = []
    wanted: list[TopicPartition] = []
    async for topic in broker.slices.each(asked.topics or ()):
        name, topic_id, refusal = _resolve(broker, context, Operation.DESCRIBE, topic.name, topic.topic_id)
        if refusal:
            partitions = [_no_offset(index, refusal) for index in topic.partition_indexes]
            refused.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic_id, partitions=partitions))
        else:
            wanted += [TopicPartition(name, index) for index in topic.partition_indexes]
    topics: dict[str, OffsetFetchResponseTopics] = {}
    # All offsets are of one moment: a fetch sees a commit as a whole or not at all.
    partitions_asked = None if asked.topics is None else wanted
    look = partial(_look_up, broker, asked, partitions_asked, require_stable)
    fetched = await broker.groups.read([asked.group_id], look)
    if fetched.error:
        answer.error_code = fetched.error
        return answer
    async for offset in broker.slices.each(fetched.partitions):
        _add_offset(broker, context, offset, topics)
    answer.topics = [*topics.values(), *refused]
    return answer


def _look_up(
    broker: GroupOffsetPort,
    asked: OffsetFetchRequestGroup,
    partitions: Sequence[TopicPartition] | None,
    require_stable: bool,
) -> results.OffsetFetchResult:
    return broker.groups.shards.read(
        FETCH_OFFSETS,
        requests.OffsetFetchRequest(
            group_id=asked.group_id,
            partitions=partitions,
            require_stable=require_stable,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
        ),
    )


def _add_offset(
    broker: GroupOffsetPort,
    context: RequestContext,
    offset: results.FetchedOffset,
    topics: dict[str, OffsetFetchResponseTopics],
) -> None:
    if not broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.TOPIC, offset.topic):
        return  # for named topics the handler has checked this right before
    topic = topics.get(offset.topic)
    if topic is None:
        image = broker.metadata.image.topics.get(offset.topic)
        if image is None and context.api_version >= _FIRST_WITH_TOPIC_IDS:
            return  # a deleted topic has no id that could name it
        topic_id = ZERO_TOPIC_ID if image is None else image.topic_id
        topic = topics[offset.topic] = OffsetFetchResponseTopics(name=offset.topic, topic_id=topic_id)
    topic.partitions.append(
        OffsetFetchResponsePartitions(
            partition_index=offset.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            error_code=offset.error,
        )
    )


# ---------------------------------------------------------------------------------------------------- OffsetDelete


async def offset_delete(
    broker: GroupOffsetPort, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Deletes a group's offsets for topics that no member reads. There is one version."""
    if not broker.authorizer.is_allowed(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    errors: dict[tuple[str, int], ErrorCode] = {}
    wanted = []
    async for topic in broker.slices.each(request.topics):
        may = broker.authorizer.is_allowed(context, Operation.READ, ResourceType.TOPIC, topic.name)
        async for asked in broker.slices.each(topic.partitions):
            if not may:
                errors[topic.name, asked.partition_index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif broker.metadata.image.partition(topic.name, asked.partition_index) is None:
                errors[topic.name, asked.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                wanted.append(TopicPartition(topic.name, asked.partition_index))
    domain = requests.OffsetDeleteRequest(request.group_id, wanted)
    result = await broker.groups.submit_in_slices(DELETE_OFFSETS, domain)
    if result.error:
        return OffsetDeleteResponse(error_code=result.error)
    async for name, index, error in broker.slices.each(result.partitions):
        errors[name, index] = error
        broker.groups.metrics.offset_deletions += not error
    response = OffsetDeleteResponse()
    async for topic in broker.slices.each(request.topics):
        partitions = [
            OffsetDeleteResponsePartition(
                partition_index=asked.partition_index, error_code=errors[topic.name, asked.partition_index]
            )
            async for asked in broker.slices.each(topic.partitions)
        ]
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return response
