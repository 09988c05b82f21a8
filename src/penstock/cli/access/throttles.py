"""Setting, finding and removing the throttles of moves. A broker's rates are set at that broker, as Kafka wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.admin.queries.configs import alteration, changes_of, configs_requests, read_settings_of
from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.configs import ConfigPlace
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.cluster_now import BROKER_PATIENCE_S
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.plans.throttles import ThrottledReplicas
from penstock.client.addresses import Address
from penstock.core.config.keys.throttles import (
    DIRECTORY_RATE,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    REPLICATION_RATES,
    THROTTLED_REPLICAS,
)
from penstock.core.config.resources import ConfigResourceType, ConfigSource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_configs import DescribeConfigsResponse
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse

_BROKER_KEYS = (*REPLICATION_RATES, DIRECTORY_RATE)
# Of what was set while the brokers run; a file or a default is not ours to remove.
_SET = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG})

Changes = Mapping[ConfigPlace, Mapping[str, str | None]]  # None deletes


class SetThrottles(NamedTuple):
    """What is set now: by topic and by broker, the keys with their values."""

    topics: dict[str, dict[str, str]]
    brokers: dict[int, dict[str, str]]
    silent: tuple[int, ...] = ()  # brokers that do not answer

    def __bool__(self) -> bool:
        return bool(self.topics or self.brokers)


def set_throttles(
    cluster: ClusterClient, brokers: Iterable[BrokerState], replicas: Mapping[str, ThrottledReplicas], rate: int
) -> list[int]:
    """The topics first: a rate without them slows nothing down. Brokers that do not answer are returned."""
    named = {
        ConfigPlace.topic(topic): {LEADER_REPLICAS: each.leaders, FOLLOWER_REPLICAS: each.followers}
        for topic, each in replicas.items()
    }
    _alter(cluster, None, named)
    return _alter_brokers(cluster, brokers, {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)})


def set_directory_throttle(cluster: ClusterClient, brokers: Iterable[BrokerState], rate: int) -> list[int]:
    return _alter_brokers(cluster, brokers, {DIRECTORY_RATE: str(rate)})


def remove_throttles(cluster: ClusterClient, brokers: Mapping[int, BrokerState], found: SetThrottles) -> list[int]:
    """The brokers first: without a rate nothing is slow any more. Brokers that do not answer are returned."""
    missed = []
    for node_id, keys in found.brokers.items():
        missed += _alter_brokers(cluster, [brokers[node_id]], dict.fromkeys(keys))
    _alter(cluster, None, {ConfigPlace.topic(topic): dict.fromkeys(keys) for topic, keys in found.topics.items()})
    return missed


def find_throttles(cluster: ClusterClient, brokers: Iterable[BrokerState], topics: Iterable[str]) -> SetThrottles:
    found_topics = _describe(cluster, None, map(ConfigPlace.topic, topics), THROTTLED_REPLICAS)
    found_brokers: dict[int, dict[str, str]] = {}
    silent = []
    for node in brokers:
        try:
            found = _describe(cluster, (node.host, node.port), [ConfigPlace.broker(node.node_id)], _BROKER_KEYS)
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            silent.append(node.node_id)
            continue
        if found:
            found_brokers[node.node_id] = found[str(node.node_id)]
    return SetThrottles(found_topics, found_brokers, tuple(silent))


# ---------------------------------------------------------------------------------------------------- requests


def _alter_brokers(
    cluster: ClusterClient, brokers: Iterable[BrokerState], values: Mapping[str, str | None]
) -> list[int]:
    missed = []
    for node in brokers:
        try:
            _alter(cluster, (node.host, node.port), {ConfigPlace.broker(node.node_id): values})
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            missed.append(node.node_id)
    return missed


def _alter(cluster: ClusterClient, address: Address | None, changes: Changes) -> None:
    if not changes:
        return
    request = alteration({place: changes_of(values) for place, values in changes.items()})
    with open_broker(cluster, address, BROKER_PATIENCE_S) as broker:
        response = broker.request(request, IncrementalAlterConfigsResponse)
    for answer in response.responses:
        _check(ConfigPlace(answer.resource_type, answer.resource_name), answer.error_code, answer.error_message)


def _describe(
    cluster: ClusterClient, address: Address | None, places: Iterable[ConfigPlace], keys: tuple[str, ...]
) -> dict[str, dict[str, str]]:
    """What was set, by the names of the places."""
    wanted = list(places)
    if not wanted:
        return {}
    found = {}
    with open_broker(cluster, address, BROKER_PATIENCE_S) as broker:
        answers = [broker.request(each, DescribeConfigsResponse) for each in configs_requests(wanted, keys)]
    for answer in (each for some in answers for each in some.results):
        place = ConfigPlace(answer.resource_type, answer.resource_name)
        if not _check(place, answer.error_code, answer.error_message):
            continue
        # A broker that does not know a key keeps the value to itself, and has it even so.
        values = {each.name: each.value or "" for each in read_settings_of(answer).values() if each.source in _SET}
        if values:
            found[place.name] = values
    return found


def _check(place: ConfigPlace, code: int, message: str | None) -> bool:
    """False for a topic that was deleted meanwhile: there is nothing to slow down. Raises CliError."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    check_error(code, f"{ConfigResourceType(place.kind).name.lower()} {place.name}", message)
    return True
