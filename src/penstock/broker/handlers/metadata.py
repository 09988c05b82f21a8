"""The first requests of clients: ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Awaitable, Generator, Iterable, Iterator

from penstock.broker.authorizer import (
    CLUSTER_NAME,
    NOT_ASKED,
    Operation,
    ResourceType,
    authorized_operations,
    cluster_operations,
)
from penstock.broker.features import FEATURES, Feature
from penstock.broker.handlers.brokers.forwarding import tells_brokers
from penstock.broker.handlers.metadata_port import MetadataPort
from penstock.broker.handlers.topics import create_used_topics
from penstock.broker.reachability import PartitionView, Reachability
from penstock.broker.served_versions import api_versions_response
from penstock.broker.session import RequestContext, shorten
from penstock.broker.slices import Work, collect
from penstock.cluster.decisions.topic_names import is_valid_topic_name
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import FEATURE as METADATA_FEATURE
from penstock.cluster.levels import LevelRange
from penstock.core.internal_topics import INTERNAL_TOPICS
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
# Older clients cannot read a feature whose lowest level is 0, so their answers leave it out (KAFKA-17011).
_FIRST_VERSION_WITH_LEVEL_ZERO = 4
_FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
_FIRST_VERSION_WITH_TOPIC_IDS = 12  # versions 10 and 11 have the fields, but must not use them
# A request for more topics than this takes the slow way from the start.
_MANY_TOPICS = 500
_PARTITIONS_PER_STEP = 100  # some 150 us
_BROKERS = 1  # DescribeCluster's endpoint types
_CONTROLLERS = 2
_NO_PORT = -1


# ---------------------------------------------------------------------------- ApiVersions


def api_versions(broker: MetadataPort, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Lists the served APIs with their versions, and the features in force (from version 3 on).

    From version 3 on the client names its software; a name that Kafka refuses gets INVALID_REQUEST. Versions below 4 do
    not see features whose lowest level is 0 (KAFKA-17011). The epoch of the features is the number of the image that
    this broker has applied, as in Kafka; the epoch shows the controller how far a broker is. APIs between brokers are
    listed on their listener and for clients with CLUSTER_ACTION, and only where there may be other brokers.
    """
    is_for_brokers = tells_brokers(broker, context)
    response = api_versions_response(api for api in broker.served_versions if is_for_brokers or not api.is_for_brokers)
    if context.api_version >= _FIRST_VERSION_WITH_SOFTWARE_NAME:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.client_software_name, context.session.client_software_version = map(shorten, names)
    _add_features(response, context.api_version, broker.metadata.image, broker.metadata.levels)
    return response


def _add_features(response: ApiVersionsResponse, version: int, image: MetadataImage, levels: LevelRange) -> None:
    features = (*FEATURES, Feature(METADATA_FEATURE, *levels, image.metadata_level))
    response.supported_features = [
        SupportedFeatureKey(name=feature.name, min_version=feature.min_level, max_version=feature.max_level)
        for feature in features
        if feature.min_level > 0 or version >= _FIRST_VERSION_WITH_LEVEL_ZERO
    ]
    response.finalized_features_epoch = image.number
    response.finalized_features = [
        FinalizedFeatureKey(name=feature.name, min_version_level=feature.level, max_version_level=feature.level)
        for feature in features
    ]


# ---------------------------------------------------------------------------- Metadata


def metadata(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Work[MetadataResponse] | Awaitable[MetadataResponse]:
    """Names the brokers, and the requested topics or all topics with their partitions and leaders.

    Null means all topics, in version 0 an empty list does. The broker creates missing topics if request and
    configuration allow. Clients may ask by topic id from version 12 on; versions 10 and 11 have the field and refuse
    ids. Versions 8 to 10 list the client's allowed operations on the cluster, versions from 8 on those on each topic.
    """
    if broker.presence is not None and not broker.presence.is_known:
        return _metadata_when_settled(broker, context, request)
    return metadata_now(broker, context, request)


def metadata_now(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Work[MetadataResponse] | Awaitable[MetadataResponse]:
    """Answers without a wait for the state of the other brokers."""
    topics = request.topics or ()
    if len(topics) > _MANY_TOPICS:
        return _metadata_of_many(broker, context, request)
    if context.api_version < _FIRST_VERSION_WITH_TOPIC_IDS and not all(map(_is_named, topics)):
        return MetadataResponse(topics=[_refuse(topic) for topic in topics])
    errors: dict[str, ErrorCode] = {}
    if _may_create(broker, request):
        missing = [name for topic in topics if (name := _name_missing(broker, context, topic, errors))]
        if missing:
            return _create_and_answer(broker, context, request, missing, errors)
    if len(topics) == 1:
        return _metadata_of_one(broker, context, request, errors)
    return _metadata(broker, context, request, errors)


async def _metadata_when_settled(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest
) -> MetadataResponse:
    """Answers after a wait: leaders may be dead, and the controller may elect others within milliseconds."""
    assert broker.presence is not None
    await broker.presence.settle()
    answer = metadata_now(broker, context, request)
    if isinstance(answer, MetadataResponse):
        return answer
    return await (broker.slices.finish(answer) if isinstance(answer, Generator) else answer)


def _metadata_of_one(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse | Work[MetadataResponse]:
    """The most frequent request of producers and consumers: a topic with few partitions, so it needs no slices."""
    assert request.topics is not None
    (asked,) = request.topics
    image = broker.metadata.image
    name, answer = _resolve(broker, context, image, asked, errors)
    if answer is None:
        assert name is not None
        topic = image.topics[name]
        if len(topic.partitions) > _PARTITIONS_PER_STEP:
            return _metadata(broker, context, request, errors)
        answer = _topic_without_partitions(broker, context, topic, request.include_topic_authorized_operations)
        reachability = _reachability(broker, context, image)
        answer.partitions = _describe_partitions(reachability, context.api_version, name, topic.partitions)
    response = _begin_response(broker, context, request, image)
    response.topics.append(answer)
    return response


async def _metadata_of_many(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest
) -> MetadataResponse:
    """The answer to a request with so many topics that even the search for missing topics runs in slices."""
    topics, slices = request.topics or (), broker.slices
    is_named = await slices.run(collect(map(_is_named, topics)))
    if context.api_version < _FIRST_VERSION_WITH_TOPIC_IDS and not all(is_named):
        return MetadataResponse(topics=await slices.run(collect(map(_refuse, topics))))
    missing: list[str] = []
    errors: dict[str, ErrorCode] = {}
    if _may_create(broker, request):
        looked_at = collect(_name_missing(broker, context, topic, errors) for topic in topics)
        missing = [name for name in await slices.run(looked_at) if name]
    if missing:
        errors |= await create_used_topics(broker, context, missing)
    return await slices.run(_metadata(broker, context, request, errors))


def _is_named(topic: MetadataRequestTopic) -> bool:
    return topic.name is not None and topic.topic_id == ZERO_TOPIC_ID


def _refuse(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)


def _may_create(broker: MetadataPort, request: MetadataRequest) -> bool:
    return request.allow_auto_topic_creation and broker.config.topics.auto_create_topics_enable


def _name_missing(
    broker: MetadataPort, context: RequestContext, topic: MetadataRequestTopic, errors: dict[str, ErrorCode]
) -> str | None:
    """The name of a topic to create: the topic does not exist, and the client may describe and create the topic.
    `errors` gets a topic that the client may describe but not create. A topic that the client may not describe gives
    None whether the topic exists or not.
    """
    name, authorizer = topic.name, broker.authorizer
    if not name or topic.topic_id != ZERO_TOPIC_ID or name in broker.metadata.image.topics:
        return None
    if not authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return None
    may_create = authorizer.would_allow(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    if not may_create and not authorizer.is_allowed(context, Operation.CREATE, ResourceType.TOPIC, name):
        errors[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None
    return name if is_valid_topic_name(name) else None


async def _create_and_answer(
    broker: MetadataPort,
    context: RequestContext,
    request: MetadataRequest,
    names: list[str],
    errors: dict[str, ErrorCode],
) -> MetadataResponse:
    errors |= await create_used_topics(broker, context, names)
    return await broker.slices.run(_metadata(broker, context, request, errors))


def _metadata(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> Work[MetadataResponse]:
    image = broker.metadata.image
    response = _begin_response(broker, context, request, image)
    reachability = _reachability(broker, context, image)
    include_operations = request.include_topic_authorized_operations
    everything = request.topics is None or (context.api_version == 0 and not request.topics)
    if everything:
        for topic in image.topics.values():
            if broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                described = yield from _metadata_topic(broker, context, topic, include_operations, reachability)
                response.topics.append(described)
            yield
    else:
        answered = set()
        for asked in request.topics or ():
            if (asked.name, asked.topic_id) not in answered:
                answered.add((asked.name, asked.topic_id))
                name, refusal = _resolve(broker, context, image, asked, errors)
                if refusal is None and name is not None:
                    topic = image.topics[name]
                    refusal = yield from _metadata_topic(broker, context, topic, include_operations, reachability)
                assert refusal is not None
                response.topics.append(refusal)
            yield
    return response


def _begin_response(
    broker: MetadataPort, context: RequestContext, request: MetadataRequest, image: MetadataImage
) -> MetadataResponse:
    """Begins a response: everything but the topics."""
    response = MetadataResponse(cluster_id=image.cluster_id, controller_id=image.controller_id)
    response.brokers = [
        MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in broker.endpoints(context.session.listener)
    ]
    if broker.presence is not None and request.topics:  # a request for all topics wants the cluster as it is
        response.brokers += [
            MetadataResponseBroker(node_id=each.node_id, host=endpoint.host, port=endpoint.port, rack=each.rack)
            for each in broker.presence.departed
            if (endpoint := each.endpoint(context.session.listener)) is not None
        ]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker.authorizer, context)
    return response


def _resolve(
    broker: MetadataPort,
    context: RequestContext,
    image: MetadataImage,
    asked: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
) -> tuple[str | None, MetadataResponseTopic | None]:
    """The name of the topic, or the error for the topic. Where the client may not describe the topic, the answer
    repeats the name or the id of the request, and no more.
    """
    by_id = asked.topic_id != ZERO_TOPIC_ID
    name = broker.partitions.topic_name(asked.topic_id) if by_id else asked.name
    if name is None:
        return None, MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return name, MetadataResponseTopic(error_code=code, name=asked.name, topic_id=asked.topic_id)
    if name not in image.topics:
        is_internal = name in INTERNAL_TOPICS
        return name, MetadataResponseTopic(error_code=_unknown(name, errors), name=name, is_internal=is_internal)
    return name, None


def _unknown(name: str, errors: dict[str, ErrorCode]) -> ErrorCode:
    if errors.get(name):
        return errors[name]
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_topic_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _metadata_topic(
    broker: MetadataPort,
    context: RequestContext,
    topic: TopicImage,
    include_operations: bool,
    reachability: Reachability,
) -> Work[MetadataResponseTopic]:
    described = _topic_without_partitions(broker, context, topic, include_operations)
    for start in range(0, len(topic.partitions), _PARTITIONS_PER_STEP):
        if start:
            yield
        states = topic.partitions[start : start + _PARTITIONS_PER_STEP]
        described.partitions += _describe_partitions(reachability, context.api_version, topic.name, states)
    return described


def _topic_without_partitions(
    broker: MetadataPort, context: RequestContext, topic: TopicImage, include_operations: bool
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=_topic_operations(broker, context, topic) if include_operations else NOT_ASKED,
    )


def _describe_partitions(
    reachability: Reachability, version: int, topic: str, states: Iterable[PartitionState]
) -> list[MetadataResponsePartition]:
    described = [
        MetadataResponsePartition(
            error_code=code,
            partition_index=state.partition,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=offline,
        )
        for state, code, leader, offline in (reachability.view(topic, state) for state in states)
    ]
    if version < _FIRST_VERSION_WITH_LISTENER_NOT_FOUND:
        for partition in described:
            _tell_older_client(reachability, version, partition)
    return described


def _tell_older_client(reachability: Reachability, version: int, partition: MetadataResponsePartition) -> None:
    """Version 0 names reachable brokers alone, and reports an error where brokers are left out."""
    if partition.error_code == ErrorCode.LISTENER_NOT_FOUND:
        partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    if version == 0:
        everybody = partition.replica_nodes + partition.isr_nodes
        partition.replica_nodes = [node for node in partition.replica_nodes if node in reachability.reachable]
        partition.isr_nodes = [node for node in partition.isr_nodes if node in reachability.reachable]
        is_complete = len(partition.replica_nodes) + len(partition.isr_nodes) == len(everybody)
        if partition.error_code == ErrorCode.NONE and not is_complete:
            partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE


def _topic_operations(broker: MetadataPort, context: RequestContext, topic: TopicImage) -> int:
    return authorized_operations(broker.authorizer, context, ResourceType.TOPIC, topic.name)


def _reachability(broker: MetadataPort, context: RequestContext, image: MetadataImage) -> Reachability:
    suspects = () if broker.presence is None else broker.presence.suspects
    return Reachability(image, context.session.listener, broker.node_id, broker.partitions, suspects)


# ---------------------------------------------------------------------------- DescribeCluster


def describe_cluster(
    broker: MetadataPort, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Names the brokers and the controller. From version 1 on a client may ask for the endpoints of controllers, and
    gets a refusal here; from version 2 on a client may also ask for fenced brokers, which are registered and away.
    """
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
    if request.include_fenced_brokers:
        response.brokers += _describe_fenced(image, context.listener)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker.authorizer, context)
    return response


def _describe_fenced(image: MetadataImage, listener: str) -> Iterator[DescribeClusterBroker]:
    """The fenced brokers. As in Kafka, without brokers that lack the listener; with those of unknown addresses."""
    for node_id, registration in image.registered.items():
        endpoint = registration.endpoint(listener)
        if node_id in image.brokers or (endpoint is None and registration.endpoints):
            continue
        host, port = ("", _NO_PORT) if endpoint is None else (endpoint.host, endpoint.port)
        yield DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=registration.rack, is_fenced=True)


# ---------------------------------------------------------------------------- DescribeTopicPartitions


def describe_topic_partitions(
    broker: MetadataPort, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Work[DescribeTopicPartitionsResponse]:
    """Describes topics in the order of their names, up to a number of partitions, with a cursor. Named topics that the
    client may not describe come last; a request for all topics leaves them out. There is one version.
    """
    image = broker.metadata.image
    topics = image.topics
    reachability = _reachability(broker, context, image)
    asked = sorted({topic.name for topic in request.topics}) or sorted(topics)
    yield
    first = 0
    if request.cursor is not None:
        asked = asked[bisect_left(asked, request.cursor.topic_name) :]
        if asked and asked[0] == request.cursor.topic_name:
            first = max(request.cursor.partition_index, 0)
    room = max(1, min(request.response_partition_limit, broker.config.requests.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    may = broker.authorizer.is_allowed if request.topics else broker.authorizer.would_allow
    refused: list[str] = []
    for name in asked:
        yield
        if not may(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
            refused.append(name)
            continue
        if room <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = topics.get(name)
        states = () if topic is None else topic.partitions[first:][:room]
        views = [reachability.view(name, state) for state in states]
        answer = _describe_topic(broker, context, topic, name, views)
        response.topics.append(answer)
        shown = len(answer.partitions)
        if shown and topic is not None and first + shown < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + shown)
            break
        room -= shown
        first = 0
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for name in refused if request.topics else ():
        response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
    return response


def _describe_topic(
    broker: MetadataPort,
    context: RequestContext,
    topic: TopicImage | None,
    name: str,
    views: Iterable[PartitionView],
) -> DescribeTopicPartitionsResponseTopic:
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(error_code=_unknown(name, {}), name=name)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=_topic_operations(broker, context, topic),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                # No error where no leader can be named, as in Kafka.
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
            for state, _, leader, offline in views
        ],
    )
