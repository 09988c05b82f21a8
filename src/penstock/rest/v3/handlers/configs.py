"""Settings: of the cluster's brokers as a whole, of one broker, of a topic. The three have the same operations.

A broker answers for its own settings alone, so the request for them goes to that broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.rest.v3.bodies import ConfigChange, ConfigChanges, ConfigValue
from penstock.rest.v3.calls import Call, check, not_found
from penstock.rest.v3.handlers.clusters import ask_cluster, find_broker
from penstock.rest.v3.resource_urls import ResourceUrl
from penstock.rest.v3.shapes import (
    BrokerConfig,
    BrokerConfigList,
    ClusterConfig,
    ClusterConfigList,
    ConfigSynonym,
    TopicConfig,
    TopicConfigList,
)

_TOPIC, _BROKER = 2, 4  # Kafka's kinds of resources with settings
_TYPE_NAMES = {_TOPIC: "TOPIC", _BROKER: "BROKER"}
_SET, _DELETE = 0, 1
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
_DEFAULT_SOURCE = 5


async def _describe(
    call: Call, kind: int, names: Sequence[str], node: int | None = None
) -> list[DescribeConfigsResult]:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    answer: DescribeConfigsResponse
    if node is None:
        answer = await call.brokers.ask(request, retry=True)
    else:
        answer = await call.brokers.ask_node(node, request, retry=True)
    for result in answer.results:
        check(result.error_code, result.error_message)
        result.configs.sort(key=lambda row: row.name)
    return answer.results


async def _alter(
    call: Call, kind: int, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> None:
    rows = [
        AlterableConfig(
            name=each.name,
            config_operation=_DELETE if each.operation == "DELETE" else _SET,
            value=None if each.operation == "DELETE" else each.value,
        )
        for each in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer: IncrementalAlterConfigsResponse
    if kind == _BROKER and name:
        answer = await call.brokers.ask_node(int(name), request)
    else:
        answer = await call.brokers.ask_controller(request)
    for result in answer.responses:
        check(result.error_code, result.error_message)


def _missing(call: Call, kind: int, resource: str, name: str) -> Exception:
    return not_found(f"Config {name} cannot be found for {_TYPE_NAMES[kind]} {resource} in cluster {call.cluster_id}.")


def _find(
    call: Call, kind: int, resource: str, results: list[DescribeConfigsResult], name: str
) -> DescribeConfigsResourceResult:
    for result in results:
        for row in result.configs:
            if row.name == name:
                return row
    raise _missing(call, kind, resource, name)


def _check_names(
    call: Call, kind: int, resource: str, results: list[DescribeConfigsResult], names: Sequence[str]
) -> None:
    known = {row.name for result in results for row in result.configs}
    for name in names:
        if name not in known:
            raise _missing(call, kind, resource, name)


def _source(number: int) -> str:
    return _SOURCES.get(number, "UNKNOWN")


def _synonyms(row: DescribeConfigsResourceResult) -> list[ConfigSynonym]:
    return [ConfigSynonym(each.name, each.value, _source(each.source)) for each in row.synonyms]


def _one(call: Call) -> list[ConfigChange]:
    """The change of a PUT."""
    return [ConfigChange(call.path["name"], call.read(ConfigValue).value, "SET")]


def _reset(call: Call) -> list[ConfigChange]:
    return [ConfigChange(call.path["name"], None, "DELETE")]


# ------------------------------------------------------------------------------------------------ of the cluster

# The handlers do not check here whether a setting exists before its change: a broker lists only settings that were set.
_ALL_BROKERS = ""


def _cluster_config(call: Call, row: DescribeConfigsResourceResult) -> ClusterConfig:
    return ClusterConfig(
        metadata=call.cluster.under("broker-configs", "broker-config", row.name).metadata,
        cluster_id=call.cluster_id,
        name=row.name,
        value=row.value,
        is_default=row.config_source == _DEFAULT_SOURCE,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        source=_source(row.config_source),
        synonyms=_synonyms(row),
    )


async def list_cluster_configs(call: Call) -> ClusterConfigList:
    results = await _describe(call, _BROKER, [_ALL_BROKERS])
    data = [_cluster_config(call, row) for result in results for row in result.configs]
    return ClusterConfigList(metadata=call.cluster.listing("broker-configs"), data=data)


async def get_cluster_config(call: Call) -> ClusterConfig:
    results = await _describe(call, _BROKER, [_ALL_BROKERS])
    return _cluster_config(call, _find(call, _BROKER, _ALL_BROKERS, results, call.path["name"]))


async def put_cluster_config(call: Call) -> None:
    await _alter(call, _BROKER, _ALL_BROKERS, _one(call))


async def delete_cluster_config(call: Call) -> None:
    await _alter(call, _BROKER, _ALL_BROKERS, _reset(call))


async def alter_cluster_configs(call: Call) -> None:
    body = call.read(ConfigChanges)
    await _alter(call, _BROKER, _ALL_BROKERS, body.data, validate_only=body.validate_only)


# ------------------------------------------------------------------------------------------------ of a broker


def _broker_config(call: Call, broker: int, row: DescribeConfigsResourceResult) -> BrokerConfig:
    place = call.cluster.under("brokers", "broker", broker)
    return BrokerConfig(
        metadata=place.under("configs", "config", row.name).metadata,
        cluster_id=call.cluster_id,
        broker_id=broker,
        name=row.name,
        value=row.value,
        is_default=row.config_source == _DEFAULT_SOURCE,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        source=_source(row.config_source),
        synonyms=_synonyms(row),
    )


async def _of_broker(call: Call, broker: int) -> list[DescribeConfigsResult]:
    return await _describe(call, _BROKER, [str(broker)], broker)


async def list_all_broker_configs(call: Call) -> BrokerConfigList:
    data = []
    for broker in sorted(row.broker_id for row in (await ask_cluster(call)).brokers):
        results = await _of_broker(call, broker)
        data += [_broker_config(call, broker, row) for result in results for row in result.configs]
    return BrokerConfigList(metadata=call.cluster.listing("brokers/-/configs"), data=data)


async def list_broker_configs(call: Call) -> BrokerConfigList:
    broker = (await find_broker(call)).broker_id
    results = await _of_broker(call, broker)
    place = call.cluster.under("brokers", "broker", broker)
    data = [_broker_config(call, broker, row) for result in results for row in result.configs]
    return BrokerConfigList(metadata=place.listing("configs"), data=data)


async def get_broker_config(call: Call) -> BrokerConfig:
    broker = (await find_broker(call)).broker_id
    row = _find(call, _BROKER, str(broker), await _of_broker(call, broker), call.path["name"])
    return _broker_config(call, broker, row)


async def _change_broker(call: Call, changes: Sequence[ConfigChange], *, validate_only: bool = False) -> None:
    broker = (await find_broker(call)).broker_id
    _check_names(call, _BROKER, str(broker), await _of_broker(call, broker), [each.name for each in changes])
    await _alter(call, _BROKER, str(broker), changes, validate_only=validate_only)


async def put_broker_config(call: Call) -> None:
    await _change_broker(call, _one(call))


async def delete_broker_config(call: Call) -> None:
    await _change_broker(call, _reset(call))


async def alter_broker_configs(call: Call) -> None:
    body = call.read(ConfigChanges)
    await _change_broker(call, body.data, validate_only=body.validate_only)


# ------------------------------------------------------------------------------------------------ of a topic


def _topic_config(call: Call, topic: str, row: DescribeConfigsResourceResult) -> TopicConfig:
    place: ResourceUrl = call.cluster.under("topics", "topic", topic)
    return TopicConfig(
        metadata=place.under("configs", "config", row.name).metadata,
        cluster_id=call.cluster_id,
        topic_name=topic,
        name=row.name,
        value=row.value,
        is_default=row.config_source == _DEFAULT_SOURCE,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        source=_source(row.config_source),
        synonyms=_synonyms(row),
    )


async def list_all_topic_configs(call: Call) -> TopicConfigList:
    names = list(await call.all_topics())
    results = await _describe(call, _TOPIC, names) if names else []
    data = [_topic_config(call, result.resource_name, row) for result in results for row in result.configs]
    return TopicConfigList(metadata=call.cluster.listing("topics/-/configs"), data=data)


async def list_topic_configs(call: Call) -> TopicConfigList:
    topic = call.path["topic_name"]
    results = await _describe(call, _TOPIC, [topic])
    data = [_topic_config(call, topic, row) for result in results for row in result.configs]
    return TopicConfigList(metadata=call.topic.listing("configs"), data=data)


async def get_topic_config(call: Call) -> TopicConfig:
    topic = call.path["topic_name"]
    results = await _describe(call, _TOPIC, [topic])
    return _topic_config(call, topic, _find(call, _TOPIC, topic, results, call.path["name"]))


async def _change_topic(call: Call, changes: Sequence[ConfigChange], *, validate_only: bool = False) -> None:
    topic = call.path["topic_name"]
    results = await _describe(call, _TOPIC, [topic])
    _check_names(call, _TOPIC, topic, results, [each.name for each in changes])
    await _alter(call, _TOPIC, topic, changes, validate_only=validate_only)


async def put_topic_config(call: Call) -> None:
    await _change_topic(call, _one(call))


async def delete_topic_config(call: Call) -> None:
    await _change_topic(call, _reset(call))


async def alter_topic_configs(call: Call) -> None:
    body = call.read(ConfigChanges)
    await _change_topic(call, body.data, validate_only=body.validate_only)
