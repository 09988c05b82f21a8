"""The controller's decisions about configuration: AlterConfigs and IncrementalAlterConfigs.

A resource is changed as a whole or not at all; an error concerns that resource alone. Codes and texts are Kafka's, even
surprising ones: a bad value is INVALID_CONFIG for a topic but INVALID_REQUEST for a broker (KAFKA-13609).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from penstock.cluster.decisions.decision import AlterConfigsResult, Decision, FullChange, IncrementalChange
from penstock.cluster.decisions.security.kept_tags import with_kept_tags
from penstock.cluster.decisions.topic_names import check_topic_name
from penstock.cluster.image import MetadataImage, Settings, settings_with_tags
from penstock.cluster.store import znodes
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.changes import (
    apply_changes,
    check_broker_list_changes,
    check_broker_settings,
)
from penstock.core.config.group import group_config
from penstock.core.config.keys.authorization import TAGS_KEY
from penstock.core.config.resources import ConfigChange, ConfigOperation, ConfigResourceType
from penstock.core.config.table import BROKER_KEYS, GROUP_KEYS_BY_NAME, TOPIC_KEYS_BY_NAME
from penstock.core.config.types import ConfigError, ConfigKey
from penstock.core.limits import MAX_STORE_PATH_LENGTH, MAX_STORE_VALUE_BYTES
from penstock.protocol.errors import ApiError, ErrorCode

_KEYS: dict[int, Mapping[str, ConfigKey]] = {
    ConfigResourceType.TOPIC: TOPIC_KEYS_BY_NAME,
    ConfigResourceType.BROKER: BROKER_KEYS,
    ConfigResourceType.GROUP: GROUP_KEYS_BY_NAME,
}

Key = TypeVar("Key", int, str)
Change = TypeVar("Change", IncrementalChange, FullChange)
# From the settings of a resource to the requested settings.
Transform = Callable[[Settings], Mapping[str, str]]


_NO_CLIENT_METRICS = "Client metrics subscriptions are not served: this broker does not collect metrics of clients."


def decide_incremental_alter_configs(
    image: MetadataImage,
    config: BrokerConfig,
    requested: Sequence[IncrementalChange],
    *,
    validate_only: bool = False,
) -> Decision[AlterConfigsResult]:
    """`config` is the configuration of the broker that got the request: a broker resource must be this broker, or all
    brokers.
    """
    return _decide(image, config, requested, _incremental_transform, validate_only)


def decide_alter_configs(
    image: MetadataImage, config: BrokerConfig, requested: Sequence[FullChange], *, validate_only: bool = False
) -> Decision[AlterConfigsResult]:
    return _decide(image, config, requested, _full_transform, validate_only)


def _decide(
    image: MetadataImage,
    config: BrokerConfig,
    requested: Sequence[Change],
    transform_of: Callable[[Change], Transform],
    validate_only: bool,
) -> Decision[AlterConfigsResult]:
    counts = Counter((change.resource_type, change.resource_name) for change in requested)
    results: list[AlterConfigsResult] = []
    new_image = image
    for change in requested:
        resource = change.resource_type, change.resource_name
        try:
            if counts[resource] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            new_image = _alter(new_image, config, *resource, transform_of(change))
        except ApiError as error:
            results.append(AlterConfigsResult(*resource, error.code, error.message))
            continue
        results.append(AlterConfigsResult(*resource, ErrorCode.NONE, None))
    if validate_only:
        return Decision(tuple(results), image)
    return Decision(tuple(results), new_image)


def parse_changes(change: IncrementalChange) -> list[ConfigChange]:
    """The changes of one resource. Raises ApiError(INVALID_REQUEST) when they make no sense for any resource."""
    _check_duplicates([each.name for each in change.changes])
    _check_nulls(
        each.name for each in change.changes if each.value is None and each.operation != ConfigOperation.DELETE
    )
    changes = []
    for name, operation, value in change.changes:
        try:
            changes.append(ConfigChange(name, ConfigOperation(operation), value))
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}") from None
    return changes


def _incremental_transform(change: IncrementalChange) -> Transform:
    changes = parse_changes(change)
    is_broker = change.resource_type == ConfigResourceType.BROKER
    keys = _KEYS.get(change.resource_type, {})

    def transform(before: Settings) -> Mapping[str, str]:
        if is_broker:
            check_broker_list_changes(changes)
        return apply_changes(before, changes, keys)

    return transform


def _full_transform(change: FullChange) -> Transform:
    _check_duplicates([name for name, _ in change.settings])
    _check_nulls(name for name, value in change.settings if value is None)
    settings = {name: value for name, value in change.settings if value is not None}
    return lambda _before: settings


def _check_duplicates(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_nulls(names: Iterable[str]) -> None:
    listed = list(names)  # a name may be the empty text, so an empty join proves nothing
    if listed:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(listed)}")


def _alter(
    image: MetadataImage, config: BrokerConfig, resource_type: int, resource_name: str, transform: Transform
) -> MetadataImage:
    if resource_type == ConfigResourceType.TOPIC:
        return _alter_topic(image, config, resource_name, transform)
    if resource_type == ConfigResourceType.BROKER:
        return _alter_broker(image, config, resource_name, transform)
    if resource_type == ConfigResourceType.GROUP:
        return _alter_group(image, config, resource_name, transform)
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        text = "Subscription name can't be empty" if not resource_name else _NO_CLIENT_METRICS
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def _alter_topic(image: MetadataImage, config: BrokerConfig, name: str, transform: Transform) -> MetadataImage:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = image.topics.get(name)
    before = settings_with_tags(image, name)
    try:
        settings = transform(before)
        check_topic_name(name)
        config.topic_config(settings)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.message) from error
    if topic is None:
        if before and settings.keys() <= {TAGS_KEY}:
            return with_kept_tags(image, name, settings.get(TAGS_KEY, ""))
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return image.with_topics({name: topic._replace(configs=_stored(settings))})


def _alter_broker(image: MetadataImage, config: BrokerConfig, name: str, transform: Transform) -> MetadataImage:
    node_id = parse_broker_id(name) if name else None
    before = image.default_broker_config if node_id is None else image.broker_configs.get(node_id, {})
    try:
        settings = transform(before)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.message) from error
    try:
        check_broker_settings(config, settings, before, is_default=node_id is None)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, error.message) from error
    stored = _stored(settings)
    if node_id is None:
        return replace(image, default_broker_config=stored)
    return replace(image, broker_configs=_with_settings(image.broker_configs, node_id, stored))


def parse_broker_id(name: str) -> int:
    """Raises ApiError unless the name of a broker resource is a number."""
    try:
        return int(name)
    except ValueError:
        message = f"Node id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, message) from None


def check_own_broker_id(name: str, own_id: int) -> None:
    """Raises ApiError unless the name of a broker resource is that of the broker that got the request from the client.

    Clients send the settings of a broker to that broker, as in Kafka.
    """
    if parse_broker_id(name) != own_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own_id}, but received {name}")


def _alter_group(image: MetadataImage, config: BrokerConfig, name: str, transform: Transform) -> MetadataImage:
    """A group need not exist."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if len(znodes.group_config_path(name)) > MAX_STORE_PATH_LENGTH:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the group's name is too long to have settings")
    before = image.group_configs.get(name, {})
    try:
        settings = transform(before)
        group_config(config, settings)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.message) from error
    return replace(image, group_configs=_with_settings(image.group_configs, name, _stored(settings)))


def _with_settings(present: Mapping[Key, Settings], key: Key, settings: Settings) -> Mapping[Key, Settings]:
    """A resource without settings of its own leaves nothing behind."""
    others = {each: kept for each, kept in present.items() if each != key}
    return {**others, key: settings} if settings else others


def _stored(settings: Settings) -> Settings:
    if len(znodes.encode_settings(settings)) > MAX_STORE_VALUE_BYTES:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"the settings take more than {MAX_STORE_VALUE_BYTES} bytes together")
    return MappingProxyType(dict(settings))
