"""Settings: of the cluster's brokers as a whole, of one broker, of a topic. The three have the same operations.

A broker answers for its own settings alone, so the request for them goes to that broker.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from penstock.admin.queries.configs import alteration, configs_requests, read_settings_of
from penstock.admin.state.configs import ConfigPlace, ConfigSetting
from penstock.core.config.resources import ConfigChange, ConfigOperation, ConfigResourceType
from penstock.protocol.messages.describe_configs import DescribeConfigsResponse
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from penstock.rest.v3.bodies import ConfigChange as AskedChange
from penstock.rest.v3.bodies import ConfigChanges, ConfigValue
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


async def _describe(call: Call, place: ConfigPlace) -> list[ConfigSetting]:
    """In the order of their names. None where the broker answers without this place."""
    return (await _describe_each(call, [place])).get(place, [])


async def _describe_each(call: Call, places: Sequence[ConfigPlace]) -> dict[ConfigPlace, list[ConfigSetting]]:
    """Of several topics, or of one place."""
    found = {}
    for request in configs_requests(places, with_synonyms=True):
        answer: DescribeConfigsResponse
        node = places[0].node_id
        if node is None:
            answer = await call.brokers.ask(request, retry=True)
        else:
            answer = await call.brokers.ask_node(node, request, retry=True)
        for result in answer.results:
            check(result.error_code, result.error_message)
            place = ConfigPlace(result.resource_type, result.resource_name)
            found[place] = sorted(read_settings_of(result).values(), key=operator.attrgetter("name"))
    return found


async def _alter(call: Call, place: ConfigPlace, changes: Sequence[AskedChange], *, only_check: bool = False) -> None:
    request = alteration({place: map(_change, changes)}, only_check=only_check)
    answer: IncrementalAlterConfigsResponse
    if place.node_id is None:
        answer = await call.brokers.ask_controller(request)
    else:
        answer = await call.brokers.ask_node(place.node_id, request)
    for result in answer.responses:
        check(result.error_code, result.error_message)


def _change(asked: AskedChange) -> ConfigChange:
    if asked.operation == "DELETE":
        return ConfigChange(asked.name, ConfigOperation.DELETE, None)
    return ConfigChange(asked.name, ConfigOperation.SET, asked.value)


def _missing(call: Call, place: ConfigPlace, name: str) -> Exception:
    kind = ConfigResourceType(place.kind).name
    return not_found(f"Config {name} cannot be found for {kind} {place.name} in cluster {call.cluster_id}.")


async def _find(call: Call, place: ConfigPlace) -> ConfigSetting:
    """The setting of the path."""
    name = call.path["name"]
    for setting in await _describe(call, place):
        if setting.name == name:
            return setting
    raise _missing(call, place, name)


async def _alter_known(
    call: Call, place: ConfigPlace, changes: Sequence[AskedChange], *, only_check: bool = False
) -> None:
    known = {setting.name for setting in await _describe(call, place)}
    for each in changes:
        if each.name not in known:
            raise _missing(call, place, each.name)
    await _alter(call, place, changes, only_check=only_check)


def _fields(call: Call, url: ResourceUrl, setting: ConfigSetting) -> dict[str, Any]:
    """What the settings of clusters, brokers and topics have in common."""
    return {
        "metadata": url.metadata,
        "cluster_id": call.cluster_id,
        "name": setting.name,
        "value": setting.value,
        "is_default": setting.is_default,
        "is_read_only": setting.is_read_only,
        "is_sensitive": setting.is_sensitive,
        "source": setting.source.name,
        "synonyms": [ConfigSynonym(each.name, each.value, each.source.name) for each in setting.synonyms],
    }


def _one(call: Call) -> list[AskedChange]:
    """The change of a PUT."""
    return [AskedChange(call.path["name"], call.read(ConfigValue).value, "SET")]


def _reset(call: Call) -> list[AskedChange]:
    return [AskedChange(call.path["name"], None, "DELETE")]


# ------------------------------------------------------------------------------------------------ of the cluster

# The handlers do not check here whether a setting exists before its change: a broker lists only settings that were set.
_ALL_BROKERS = ConfigPlace.all_brokers()


def _cluster_config(call: Call, setting: ConfigSetting) -> ClusterConfig:
    return ClusterConfig(**_fields(call, call.cluster.under("broker-configs", "broker-config", setting.name), setting))


async def list_cluster_configs(call: Call) -> ClusterConfigList:
    data = [_cluster_config(call, setting) for setting in await _describe(call, _ALL_BROKERS)]
    return ClusterConfigList(metadata=call.cluster.listing("broker-configs"), data=data)


async def get_cluster_config(call: Call) -> ClusterConfig:
    return _cluster_config(call, await _find(call, _ALL_BROKERS))


async def put_cluster_config(call: Call) -> None:
    await _alter(call, _ALL_BROKERS, _one(call))


async def delete_cluster_config(call: Call) -> None:
    await _alter(call, _ALL_BROKERS, _reset(call))


async def alter_cluster_configs(call: Call) -> None:
    body = call.read(ConfigChanges)
    await _alter(call, _ALL_BROKERS, body.data, only_check=body.validate_only)


# ------------------------------------------------------------------------------------------------ of a broker


async def _place_of_broker(call: Call) -> ConfigPlace:
    return ConfigPlace.broker((await find_broker(call)).broker_id)


def _url_of_broker(call: Call, place: ConfigPlace) -> ResourceUrl:
    return call.cluster.under("brokers", "broker", int(place.name))


def _broker_config(call: Call, place: ConfigPlace, setting: ConfigSetting) -> BrokerConfig:
    url = _url_of_broker(call, place).under("configs", "config", setting.name)
    return BrokerConfig(**_fields(call, url, setting), broker_id=int(place.name))


async def list_all_broker_configs(call: Call) -> BrokerConfigList:
    data = []
    for broker in sorted(row.broker_id for row in (await ask_cluster(call)).brokers):
        place = ConfigPlace.broker(broker)
        data += [_broker_config(call, place, setting) for setting in await _describe(call, place)]
    return BrokerConfigList(metadata=call.cluster.listing("brokers/-/configs"), data=data)


async def list_broker_configs(call: Call) -> BrokerConfigList:
    place = await _place_of_broker(call)
    data = [_broker_config(call, place, setting) for setting in await _describe(call, place)]
    return BrokerConfigList(metadata=_url_of_broker(call, place).listing("configs"), data=data)


async def get_broker_config(call: Call) -> BrokerConfig:
    place = await _place_of_broker(call)
    return _broker_config(call, place, await _find(call, place))


async def put_broker_config(call: Call) -> None:
    await _alter_known(call, await _place_of_broker(call), _one(call))


async def delete_broker_config(call: Call) -> None:
    await _alter_known(call, await _place_of_broker(call), _reset(call))


async def alter_broker_configs(call: Call) -> None:
    body = call.read(ConfigChanges)
    await _alter_known(call, await _place_of_broker(call), body.data, only_check=body.validate_only)


# ------------------------------------------------------------------------------------------------ of a topic


def _place_of_topic(call: Call) -> ConfigPlace:
    return ConfigPlace.topic(call.path["topic_name"])


def _topic_config(call: Call, place: ConfigPlace, setting: ConfigSetting) -> TopicConfig:
    url = call.cluster.under("topics", "topic", place.name).under("configs", "config", setting.name)
    return TopicConfig(**_fields(call, url, setting), topic_name=place.name)


async def list_all_topic_configs(call: Call) -> TopicConfigList:
    found = await _describe_each(call, [ConfigPlace.topic(name) for name in await call.all_topics()])
    data = [_topic_config(call, place, setting) for place, settings in found.items() for setting in settings]
    return TopicConfigList(metadata=call.cluster.listing("topics/-/configs"), data=data)


async def list_topic_configs(call: Call) -> TopicConfigList:
    place = _place_of_topic(call)
    data = [_topic_config(call, place, setting) for setting in await _describe(call, place)]
    return TopicConfigList(metadata=call.topic.listing("configs"), data=data)


async def get_topic_config(call: Call) -> TopicConfig:
    place = _place_of_topic(call)
    return _topic_config(call, place, await _find(call, place))


async def put_topic_config(call: Call) -> None:
    await _alter_known(call, _place_of_topic(call), _one(call))


async def delete_topic_config(call: Call) -> None:
    await _alter_known(call, _place_of_topic(call), _reset(call))


async def alter_topic_configs(call: Call) -> None:
    body = call.read(ConfigChanges)
    await _alter_known(call, _place_of_topic(call), body.data, only_check=body.validate_only)
