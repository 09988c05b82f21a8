"""What clients ask first: which APIs, which brokers, which topics."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable

from penstock.broker.authorizer import CLUSTER_NAME, NOT_ASKED, Operation, ResourceType, authorized_operations
from penstock.broker.broker import Broker
from penstock.broker.features import FEATURES, FEATURES_EPOCH
from penstock.broker.served_versions import api_versions_response
from penstock.broker.session import RequestContext, shorten
from penstock.cluster.decisions.topic_names import is_valid_topic_name
from penstock.cluster.image import PartitionState, TopicImage
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE_NAME = 3
# Older clients cannot read a feature whose lowest level is 0, so they are not told that it exists (KAFKA-17011).
_FIRST_VERSION_WITH_LEVEL_ZERO = 4
_FIRST_VERSION_WITH_TOPIC_IDS = 12  # the fields are there from 10 on, but not to be used
_BROKERS = 1  # DescribeCluster's endpoint types
_CONTROLLERS = 2


# ---------------------------------------------------------------------------- ApiVersions


def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    response = api_versions_response(broker.served_versions)
    if context.api_version >= _FIRST_VERSION_WITH_SOFTWARE_NAME:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.client_software_name, context.session.client_software_version = map(shorten, names)
    _add_features(response, context.api_version)
    return response


def _add_features(response: ApiVersionsResponse, version: int) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=feature.name, min_version=feature.min_level, max_version=feature.max_level)
        for feature in FEATURES
        if feature.min_level > 0 or version >= _FIRST_VERSION_WITH_LEVEL_ZERO
    ]
    response.finalized_features_epoch = FEATURES_EPOCH
    response.finalized_features = [
        FinalizedFeatureKey(name=feature.name, min_version_level=feature.level, max_version_level=feature.level)
        for feature in FEATURES
    ]


# ---------------------------------------------------------------------------- Metadata


def metadata(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if context.api_version < _FIRST_VERSION_WITH_TOPIC_IDS and not all(map(_is_named, request.topics or ())):
        return MetadataResponse(topics=[_refuse(topic) for topic in request.topics or ()])
    missing = _topics_to_create(broker, context, request)
    if missing:
        return _create_and_answer(broker, context, request, missing)
    return _metadata(broker, context, request, {})


def _is_named(topic: MetadataRequestTopic) -> bool:
    return topic.name is not None and topic.topic_id == ZERO_TOPIC_ID


def _refuse(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)


def _topics_to_create(broker: Broker, context: RequestContext, request: MetadataRequest) -> list[str]:
    if (
        not request.allow_auto_topic_creation
        or not request.topics
        or not broker.config.topics.auto_create_topics_enable
    ):
        return []
    known = broker.metadata.image.topics
    return [
        topic.name
        for topic in request.topics
        if topic.name
        and topic.topic_id == ZERO_TOPIC_ID
        and topic.name not in known
        and is_valid_topic_name(topic.name)
        and broker.authorizer.is_allowed(context, Operation.CREATE, ResourceType.TOPIC, topic.name)
    ]


async def _create_and_answer(
    broker: Broker, context: RequestContext, request: MetadataRequest, names: list[str]
) -> MetadataResponse:
    errors = await broker.topic_creation.create(names)
    return _metadata(broker, context, request, errors)


def _metadata(
    broker: Broker, context: RequestContext, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = broker.metadata.image
    response = MetadataResponse(cluster_id=image.cluster_id, controller_id=image.controller_id)
    response.brokers = [
        MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in broker.endpoints(context.listener)
    ]
    everything = request.topics is None or (context.api_version == 0 and not request.topics)
    if everything:
        response.topics = [
            _metadata_topic(broker, context, topic, request.include_topic_authorized_operations)
            for topic in image.topics.values()
            if broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    else:
        asked = {(topic.name, topic.topic_id): topic for topic in request.topics or ()}
        response.topics = [_answer_topic(broker, context, request, topic, errors) for topic in asked.values()]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations(
            broker.authorizer, context, ResourceType.CLUSTER, CLUSTER_NAME
        )
    return response


def _answer_topic(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    asked: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    by_id = asked.topic_id != ZERO_TOPIC_ID
    name = broker.partitions.topic_name(asked.topic_id) if by_id else asked.name
    if name is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = broker.metadata.image.topics.get(name)
    if topic is None:
        return MetadataResponseTopic(error_code=_unknown(name, errors), name=name)
    return _metadata_topic(broker, context, topic, request.include_topic_authorized_operations)


def _unknown(name: str, errors: dict[str, ErrorCode]) -> ErrorCode:
    if not is_valid_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return errors.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _metadata_topic(
    broker: Broker, context: RequestContext, topic: TopicImage, include_operations: bool
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=broker.partitions.is_internal(topic.name),
        topic_authorized_operations=_topic_operations(broker, context, topic) if include_operations else NOT_ASKED,
        partitions=[
            MetadataResponsePartition(
                error_code=error_code,
                partition_index=state.partition,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                offline_replicas=offline,
            )
            for state, error_code, leader, offline in _partition_states(broker, topic)
        ],
    )


def _topic_operations(broker: Broker, context: RequestContext, topic: TopicImage) -> int:
    return authorized_operations(broker.authorizer, context, ResourceType.TOPIC, topic.name)


def _partition_states(broker: Broker, topic: TopicImage) -> Iterable[tuple[PartitionState, ErrorCode, int, list[int]]]:
    """(state, error, leader, offline replicas): a replica whose disk failed leads nothing."""
    for state in topic.partitions:
        if state.leader == broker.node_id and not broker.partitions.is_online(topic.name, state.partition):
            yield state, ErrorCode.LEADER_NOT_AVAILABLE, -1, [broker.node_id]
        else:
            yield state, ErrorCode.NONE, state.leader, []


# ---------------------------------------------------------------------------- DescribeCluster


def describe_cluster(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        is_known = request.endpoint_type == _CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = "this endpoint answers for brokers" if is_known else f"unknown endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=code, error_message=message)
    image = broker.metadata.image
    response = DescribeClusterResponse(cluster_id=image.cluster_id, controller_id=image.controller_id)
    response.brokers = [
        DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in broker.endpoints(context.listener)
    ]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations(
            broker.authorizer, context, ResourceType.CLUSTER, CLUSTER_NAME
        )
    return response


# ---------------------------------------------------------------------------- DescribeTopicPartitions


def describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Topics in the order of their names, at most so many partitions, and a cursor where to go on."""
    topics = broker.metadata.image.topics
    asked = sorted({topic.name for topic in request.topics}) or sorted(topics)
    first = 0
    if request.cursor is not None:
        asked = [name for name in asked if name >= request.cursor.topic_name]
        if asked and asked[0] == request.cursor.topic_name:
            first = request.cursor.partition_index
    room = max(1, min(request.response_partition_limit, broker.config.requests.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for name in asked:
        if room <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        answer = _describe_topic(broker, context, topics.get(name), name)
        shown = answer.partitions[first:][:room]
        if first + len(shown) < len(answer.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(shown))
        answer.partitions = shown
        room -= len(shown)
        first = 0
        response.topics.append(answer)
        if response.next_cursor is not None:
            break
    return response


def _describe_topic(
    broker: Broker, context: RequestContext, topic: TopicImage | None, name: str
) -> DescribeTopicPartitionsResponseTopic:
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(error_code=_unknown(name, {}), name=name)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=broker.partitions.is_internal(name),
        topic_authorized_operations=_topic_operations(broker, context, topic),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=error_code,
                partition_index=state.partition,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                # Empty, never null: the Java admin client dereferences them.
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=offline,
            )
            for state, error_code, leader, offline in _partition_states(broker, topic)
        ],
    )
