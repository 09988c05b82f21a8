"""Topics come, grow and go: CreateTopics, CreatePartitions, DeleteTopics."""

from __future__ import annotations

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext
from penstock.cluster.decisions.decision import (
    CreatePartitionsResult,
    CreateTopicResult,
    DeleteTopicResult,
    NewPartitions,
    NewTopic,
    TopicSelector,
)
from penstock.cluster.metadata import answer_each
from penstock.core.config.describe import describe_topic
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

_FIRST_DELETE_BY_ID = 6
# From these versions on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_CREATE_TOPICS = 6
_STRICT_CREATE_PARTITIONS = 3
_STRICT_DELETE_TOPICS = 5


# ---------------------------------------------------------------------------------------------------- CreateTopics


async def create_topics(broker: Broker, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Creates topics, or only says whether it would. Each topic succeeds or fails by itself.

    From version 4 on -1 stands for the configured number of partitions and replicas. From version 5 on the answer has
    the topic's configuration, from version 7 on its id.
    """
    anything = broker.authorizer.is_allowed(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    refused: list[str] = []
    wanted: list[NewTopic] = []
    async for topic in broker.slices.each(request.topics):
        if anything or broker.authorizer.is_allowed(context, Operation.CREATE, ResourceType.TOPIC, topic.name):
            wanted.append(_new_topic(topic))
        else:
            refused.append(topic.name)
    charge = broker.quotas.charge(context, _STRICT_CREATE_TOPICS)
    results = await answer_each(
        broker.metadata.create_topics(wanted, validate_only=request.validate_only, charge=charge),
        lambda code, message: (
            CreateTopicResult(name, code, message) for name in dict.fromkeys(topic.name for topic in wanted)
        ),
    )
    response = CreateTopicsResponse(throttle_time_ms=charge.settle())
    async for result in broker.slices.each(results):
        response.topics.append(_created(broker, result))
    response.topics += [
        CreatableTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None)
        for name in dict.fromkeys(refused)
    ]
    return response


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _created(broker: Broker, result: CreateTopicResult) -> CreatableTopicResult:
    topic = result.topic
    if topic is None:
        return CreatableTopicResult(name=result.name, error_code=result.code, error_message=result.message)
    return CreatableTopicResult(
        name=result.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(broker.config, topic.configs)
        ],
    )


# ---------------------------------------------------------------------------------------------------- CreatePartitions


async def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Adds partitions to topics, or only says whether it would. All versions served are alike."""
    refused: list[str] = []
    wanted: list[NewPartitions] = []
    async for topic in broker.slices.each(request.topics):
        if broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.TOPIC, topic.name):
            wanted.append(_new_partitions(topic))
        else:
            refused.append(topic.name)
    charge = broker.quotas.charge(context, _STRICT_CREATE_PARTITIONS)
    results = await answer_each(
        broker.metadata.create_partitions(wanted, validate_only=request.validate_only, charge=charge),
        lambda code, message: (
            CreatePartitionsResult(name, code, message) for name in dict.fromkeys(topic.name for topic in wanted)
        ),
    )
    response = CreatePartitionsResponse(throttle_time_ms=charge.settle())
    async for result in broker.slices.each(results):
        response.results.append(
            CreatePartitionsTopicResult(name=result.name, error_code=result.code, error_message=result.message)
        )
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response.results += [CreatePartitionsTopicResult(name=name, error_code=code) for name in dict.fromkeys(refused)]
    return response


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic.name,
        topic.count,
        None if assignments is None else tuple(tuple(each.broker_ids) for each in assignments),
    )


# ---------------------------------------------------------------------------------------------------- DeleteTopics


async def delete_topics(broker: Broker, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Deletes topics. From version 5 on errors have words, from version 6 on a topic may be named by its id."""
    if context.api_version >= _FIRST_DELETE_BY_ID:
        selectors = (TopicSelector(topic.name, topic.topic_id) for topic in request.topics)
    else:
        selectors = (TopicSelector(name) for name in request.topic_names)
    wanted: list[TopicSelector] = []
    refused: list[TopicSelector] = []
    async for selector in broker.slices.each(selectors):
        (wanted if _may_delete(broker, context, selector) else refused).append(selector)
    charge = broker.quotas.charge(context, _STRICT_DELETE_TOPICS)
    results = await answer_each(
        broker.metadata.delete_topics(wanted, charge),
        lambda code, message: (DeleteTopicResult(*selector, code, message) for selector in dict.fromkeys(wanted)),
    )
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refusals = [DeleteTopicResult(each.name, each.topic_id, code, None) for each in refused]
    response = DeleteTopicsResponse(throttle_time_ms=charge.settle())
    async for result in broker.slices.each((*results, *refusals)):
        response.responses.append(_deleted(result))
    return response


def _may_delete(broker: Broker, context: RequestContext, selector: TopicSelector) -> bool:
    name = selector.name
    if name is None and selector.topic_id != ZERO_TOPIC_ID:
        name = broker.partitions.topic_name(selector.topic_id)
    return name is None or broker.authorizer.is_allowed(context, Operation.DELETE, ResourceType.TOPIC, name)


def _deleted(result: DeleteTopicResult) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=result.name, topic_id=result.topic_id, error_code=result.code, error_message=result.message
    )
