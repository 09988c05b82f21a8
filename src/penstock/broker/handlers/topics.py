"""Creates, extends and deletes topics: CreateTopics, CreatePartitions, DeleteTopics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.quotas.client_quotas import FREE_OF_CHARGE, ClientQuotas
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices
from penstock.broker.topic_creation import TopicCreation
from penstock.cluster.decisions.decision import (
    CreatePartitionsResult,
    CreateTopicResult,
    DeleteTopicResult,
    NewPartitions,
    NewTopic,
    TopicSelector,
)
from penstock.cluster.metadata import Metadata, answer_each
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.describe import describe_topic
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.message import Message
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
from penstock.security.policies.tags import TAGS_KEY

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.forwarding.forwarder import Forwarding

_FIRST_DELETE_BY_ID = 6
_TAGS_NEED_MORE = f"{TAGS_KEY} needs AlterConfigs on the cluster"
# From these versions on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_CREATE_TOPICS = 6
_STRICT_CREATE_PARTITIONS = 3
_STRICT_DELETE_TOPICS = 5
# The version in which a broker asks the controller for a topic that a client uses.
_CREATE_TOPICS_VERSION = 7


# ---------------------------------------------------------------------------------------------------- CreateTopics


class DescribedTopicPort(Protocol):
    """The parts of the broker that the description of a created topic uses."""

    authorizer: Authorizer
    config: BrokerConfig


class TopicPort(DescribedTopicPort, Protocol):
    """The parts of the broker that the handlers of topics use."""

    forwarding: Forwarding | None
    metadata: Metadata
    partitions: Partitions
    quotas: ClientQuotas
    slices: Slices
    topic_creation: TopicCreation


async def create_topics(
    broker: TopicPort, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Creates topics, or only checks whether it could. Each topic succeeds or fails by itself.

    From version 4 on -1 stands for the configured number of partitions and replicas. From version 5 on the answer has
    the topic's shape and configuration, if the client may see them, from version 7 on its id. The request's timeout
    bounds the forwarding to the controller (`forwarding`) and not the work there, as in KRaft: the answer comes when
    the topic exists, and librdkafka asks for 0 ms by default. Where the store does not answer, the end of the session
    with the store ends the work.
    """
    anything = broker.authorizer.would_allow(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    refused: list[str] = []
    wanted: list[NewTopic] = []
    tagged: list[str] = []  # topics with tags, by a client that may not set tags
    async for topic in broker.slices.each(request.topics):
        if not _may_tag(broker, context, topic):
            tagged.append(topic.name)
        elif anything or broker.authorizer.is_allowed(context, Operation.CREATE, ResourceType.TOPIC, topic.name):
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
        response.topics.append(describe_created(broker, context, result))
    code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    response.topics += [
        CreatableTopicResult(name=name, error_code=code, error_message=message) for name in dict.fromkeys(refused)
    ]
    code, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _TAGS_NEED_MORE
    response.topics += [
        CreatableTopicResult(name=name, error_code=code, error_message=message) for name in dict.fromkeys(tagged)
    ]
    return response


async def create_used_topics(broker: TopicPort, context: RequestContext, names: Sequence[str]) -> dict[str, ErrorCode]:
    """Creates missing topics that a client asks for. Returns errors by name.

    As in Kafka the client pays the quota of a CreateTopics request, and the controller gets the request in the client's
    name. A topic for which the client's quota has no room does not exist yet: the client asks again.
    """
    creating = context._replace(api_key=CreateTopicsRequest.API_KEY, api_version=_CREATE_TOPICS_VERSION)
    charge = broker.quotas.charge(creating, _STRICT_CREATE_TOPICS)
    if charge is FREE_OF_CHARGE:
        return await broker.topic_creation.create(names)
    forwarding = broker.forwarding

    async def forward(request: CreateTopicsRequest) -> Message | None:
        assert forwarding is not None
        return await forwarding.forward(creating, request)

    errors = await broker.topic_creation.create(names, charge, None if forwarding is None else forward)
    charge.settle()
    return errors


def _may_tag(broker: TopicPort, context: RequestContext, topic: CreatableTopic) -> bool:
    """Tags open and close topics, so the creator may not choose them freely."""
    return not any(config.name == TAGS_KEY for config in topic.configs) or broker.authorizer.is_allowed(
        context, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def describe_created(
    broker: DescribedTopicPort, context: RequestContext, result: CreateTopicResult
) -> CreatableTopicResult:
    topic = result.topic
    if topic is None:
        return CreatableTopicResult(name=result.name, error_code=result.code, error_message=result.message)
    if not broker.authorizer.would_allow(context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return CreatableTopicResult(
            name=result.name, topic_id=topic.topic_id, error_message=None, topic_config_error_code=code, configs=[]
        )
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
    broker: TopicPort, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Adds partitions to topics, or only checks whether it could. All versions have the same behaviour."""
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


async def delete_topics(
    broker: TopicPort, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Deletes topics. From version 5 on errors have messages, from version 6 on a request may name a topic by its id.

    A client that may not describe a topic learns neither its name nor whether the topic exists. The right to delete the
    cluster includes the right to delete every topic, as in Kafka.
    """
    if context.api_version >= _FIRST_DELETE_BY_ID:
        selectors = (TopicSelector(topic.name, topic.topic_id) for topic in request.topics)
    else:
        selectors = (TopicSelector(name) for name in request.topic_names)
    anything = broker.authorizer.would_allow(context, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
    wanted: list[TopicSelector] = []
    refusals: list[DeleteTopicResult] = []
    async for selector in broker.slices.each(selectors):
        refusal = None if anything else _refuse_deletion(broker, context, selector)
        if refusal is None:
            wanted.append(selector)
        else:
            refusals.append(refusal)
    charge = broker.quotas.charge(context, _STRICT_DELETE_TOPICS)
    results = await answer_each(
        broker.metadata.delete_topics(wanted, charge),
        lambda code, message: (DeleteTopicResult(*selector, code, message) for selector in dict.fromkeys(wanted)),
    )
    response = DeleteTopicsResponse(throttle_time_ms=charge.settle())
    async for result in broker.slices.each((*results, *refusals)):
        response.responses.append(_deleted(result))
    return response


def _refuse_deletion(broker: TopicPort, context: RequestContext, selector: TopicSelector) -> DeleteTopicResult | None:
    """None where the client may delete the topic, and where there is no topic to delete."""
    name, topic_id = selector
    if name is not None and topic_id != ZERO_TOPIC_ID:
        return None  # the controller refuses a topic with both name and id
    known = name
    if name is None and topic_id != ZERO_TOPIC_ID:
        known = broker.partitions.topic_name(topic_id)
    if known is None or broker.authorizer.is_allowed(context, Operation.DELETE, ResourceType.TOPIC, known):
        return None
    is_describable = broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.TOPIC, known)
    if is_describable and known not in broker.metadata.image.topics:
        return None  # a client that may describe the topic may learn that the topic does not exist
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeleteTopicResult(known if is_describable else name, topic_id, code, describe(code))


def _deleted(result: DeleteTopicResult) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=result.name, topic_id=result.topic_id, error_code=result.code, error_message=result.message
    )
