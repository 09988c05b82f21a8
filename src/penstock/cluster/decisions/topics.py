"""The controller's decisions about topics: pure functions from an image and a request to answers and changes.

An error concerns one item and leaves the others alone. The order of checks and the texts are Kafka's, because clients
and tests look for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from penstock.cluster.decisions.decision import (
    CreatePartitionsResult,
    CreateTopicResult,
    Decision,
    DeleteTopicResult,
    NewPartitions,
    NewTopic,
    TopicSelector,
)
from penstock.cluster.decisions.leadership import can_take_over
from penstock.cluster.decisions.placement import check_new_assignment, place_replicas
from penstock.cluster.decisions.security.kept_tags import Room, keep_tags, with_tags_of_name
from penstock.cluster.decisions.topic_names import check_collision, check_topic_name
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage, find_colliding_names
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.sections import TopicSection
from penstock.core.config.types import ConfigError
from penstock.core.limits import MAX_PARTITIONS_PER_REQUEST
from penstock.core.types import ZERO_TOPIC_ID, TopicId
from penstock.protocol.errors import ApiError, ErrorCode

# Called before partitions are created or deleted, with their number. Raises ApiError where the client has to wait.
Charge = Callable[[int], None]

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
_TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
_DUPLICATE_NAME = "Duplicate topic name."


class Choices(NamedTuple):
    """The source of chance in a decision, so that a test can fix it."""

    random: Random
    new_topic_id: Callable[[], TopicId]


def charge_nothing(partition_count: int) -> None:
    """The charge for a client without a quota."""


def decide_create_topics(
    image: MetadataImage,
    config: BrokerConfig,
    requested: Sequence[NewTopic],
    choices: Choices,
    *,
    validate_only: bool = False,
    charge: Charge = charge_nothing,
) -> Decision[CreateTopicResult]:
    """One result per distinct name, in the order of the request."""
    counts = Counter(topic.name for topic in requested)
    if sum(_partition_count(topic, config.topics) for topic in requested) > MAX_PARTITIONS_PER_REQUEST:
        code = ErrorCode.POLICY_VIOLATION
        return Decision(tuple(CreateTopicResult(name, code, _TOO_MANY_PARTITIONS) for name in counts), image)
    results: list[CreateTopicResult] = []
    created: dict[str, TopicImage] = {}
    colliding_names = dict(image.colliding_names)
    for topic in {topic.name: topic for topic in requested}.values():
        try:
            if counts[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, _DUPLICATE_NAME)
            _check_new_name(image, topic.name, colliding_names)
            new = _new_topic(image, config, topic, choices)
            charge(len(new.partitions))
        except ApiError as error:
            results.append(CreateTopicResult(topic.name, error.code, error.message))
            continue
        created[topic.name] = new
        colliding_names |= find_colliding_names([topic.name])
        results.append(CreateTopicResult(topic.name, ErrorCode.NONE, None, new))
    if validate_only:
        return Decision(tuple(results), image)
    return Decision(tuple(results), image.with_topics(created))


def decide_delete_topics(
    image: MetadataImage,
    settings: TopicSection,
    selectors: Sequence[TopicSelector],
    charge: Charge = charge_nothing,
) -> Decision[DeleteTopicResult]:
    if not settings.delete_topic_enable:
        code, message = ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."
        return Decision(tuple(DeleteTopicResult(*selector, code, message) for selector in selectors), image)
    counts = Counter(selectors)
    topics = {selector: _selected_topic(image, selector) for selector in counts}
    targets = Counter(topic.topic_id for topic in topics.values() if topic is not None)
    results: list[DeleteTopicResult] = []
    deleted: dict[str, TopicImage] = {}
    room = Room(image)
    for selector, topic in topics.items():
        try:
            _check_selector(selector, counts[selector])
            if topic is None:
                unknown = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if selector.name is not None else ErrorCode.UNKNOWN_TOPIC_ID
                )
                raise ApiError(unknown)
            if targets[topic.topic_id] > 1 and selector.name is not None:
                message = "The provided topic name maps to an ID that was already supplied."
                raise ApiError(ErrorCode.INVALID_REQUEST, message)
            room.take(topic)
            charge(len(topic.partitions))
        except ApiError as error:
            results.append(DeleteTopicResult(*selector, error.code, error.message))
            continue
        deleted[topic.name] = topic
        results.append(DeleteTopicResult(topic.name, topic.topic_id, ErrorCode.NONE, None))
    return Decision(tuple(results), keep_tags(image.without_topics(set(deleted)), deleted.values()))


def decide_create_partitions(
    image: MetadataImage,
    requested: Sequence[NewPartitions],
    choices: Choices,
    *,
    validate_only: bool = False,
    charge: Charge = charge_nothing,
) -> Decision[CreatePartitionsResult]:
    counts = Counter(item.name for item in requested)
    results: list[CreatePartitionsResult] = []
    grown: dict[str, TopicImage] = {}
    allowance = MAX_PARTITIONS_PER_REQUEST
    for item in {item.name: item for item in requested}.values():
        try:
            if counts[item.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, _DUPLICATE_NAME)
            topic = image.topics.get(item.name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            added = _new_partitions(image, topic, item, choices, allowance)
            charge(len(added))
        except ApiError as error:
            results.append(CreatePartitionsResult(item.name, error.code, error.message))
            continue
        allowance -= len(added)
        grown[topic.name] = topic._replace(partitions=topic.partitions + added)
        results.append(CreatePartitionsResult(topic.name, ErrorCode.NONE, None))
    if validate_only:
        return Decision(tuple(results), image)
    return Decision(tuple(results), image.with_topics(grown))


def _partition_count(topic: NewTopic, settings: TopicSection) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.partition_count == -1 else max(topic.partition_count, 0)


def _check_new_name(image: MetadataImage, name: str, colliding_names: Mapping[str, str]) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    check_collision(name, colliding_names)


def _new_topic(image: MetadataImage, config: BrokerConfig, topic: NewTopic, choices: Choices) -> TopicImage:
    configs = with_tags_of_name(image, topic.name, _checked_settings(config, topic.configs))
    replicas = (
        _manual_replicas(image, topic) if topic.assignments else _placed_replicas(image, config.topics, topic, choices)
    )
    partitions = tuple(_new_state(image, index, nodes) for index, nodes in enumerate(replicas))
    return TopicImage(topic.name, choices.new_topic_id(), partitions, configs)


def _checked_settings(config: BrokerConfig, given: Sequence[tuple[str, str | None]]) -> Mapping[str, str]:
    nulls = [name for name, value in given if value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, message)
    settings = {name: value for name, value in given if value is not None}
    try:
        config.topic_config(settings)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.message) from error
    return MappingProxyType(settings)


def _placed_replicas(
    image: MetadataImage, settings: TopicSection, topic: NewTopic, choices: Choices
) -> list[tuple[int, ...]]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.partition_count < -1 or topic.partition_count == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, message)
    factor = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return place_replicas(image, _partition_count(topic, settings), factor, choices.random)


def _manual_replicas(image: MetadataImage, topic: NewTopic) -> list[tuple[int, ...]]:
    specified = "A manual partition assignment was specified, but"
    if topic.replication_factor != -1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{specified} replication factor was not set to -1.")
    if topic.partition_count != -1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{specified} numPartitions was not set to -1.")
    replicas: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for partition, nodes in topic.assignments:
        if partition in replicas:
            message = f"Found multiple manual partition assignments for partition {partition}"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        check_new_assignment(image, partition, nodes, factor)
        factor = len(nodes)
        replicas[partition] = nodes
    if sorted(replicas) != list(range(len(replicas))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [replicas[partition] for partition in range(len(replicas))]


def _new_state(image: MetadataImage, partition: int, replicas: tuple[int, ...]) -> PartitionState:
    """All replicas are in sync with nothing, except a broker that is about to stop, which would not follow for long,
    and a broker that is away, which does not know of the partition.
    """
    isr = tuple(node for node in replicas if can_take_over(node, image.brokers))
    return PartitionState(partition, replicas, isr, isr[0])


def _selected_topic(image: MetadataImage, selector: TopicSelector) -> TopicImage | None:
    if selector.name is not None:
        return image.topics.get(selector.name) if selector.topic_id == ZERO_TOPIC_ID else None
    return image.topics_by_id.get(selector.topic_id)


def _check_selector(selector: TopicSelector, count: int) -> None:
    has_name, has_id = selector.name is not None, selector.topic_id != ZERO_TOPIC_ID
    if has_name and has_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if not has_name and not has_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if count > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, _DUPLICATE_NAME if has_name else "Duplicate topic id.")


def _new_partitions(
    image: MetadataImage, topic: TopicImage, item: NewPartitions, choices: Choices, allowance: int
) -> tuple[PartitionState, ...]:
    present = len(topic.partitions)
    if item.partition_count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if item.partition_count < present:
        state = f"The topic {topic.name} currently has {present} partition(s)"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{state}; {item.partition_count} would not be an increase.")
    additional = item.partition_count - present
    if additional > allowance:
        raise ApiError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_PARTITIONS)
    if item.assignments is None:
        replicas = place_replicas(image, additional, topic.replication_factor, choices.random)
    else:
        if len(item.assignments) != additional:
            message = (
                f"Attempted to add {additional} additional partition(s), but only {len(item.assignments)} "
                "assignment(s) were specified."
            )
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        for index, nodes in enumerate(item.assignments, present):
            check_new_assignment(image, index, nodes, topic.replication_factor)
        replicas = list(item.assignments)
    return tuple(_new_state(image, present + index, nodes) for index, nodes in enumerate(replicas))
