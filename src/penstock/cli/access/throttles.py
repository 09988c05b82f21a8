"""Setting, finding and removing the throttles of moves. A broker's rates are set at that broker, as Kafka wants it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.admin.state.brokers import BrokerState
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.cluster_now import BROKER_PATIENCE_S
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.plans.throttles import ThrottledReplicas
from penstock.cli.views.configs import ResourceKind, SettingOperation
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
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_BROKER_KEYS = (*REPLICATION_RATES, DIRECTORY_RATE)
# Of what was set while the brokers run; a file or a default is not ours to remove.
_DYNAMIC_TOPIC, _DYNAMIC_BROKER = 1, 2

Changes = Mapping[str, Mapping[str, str | None]]  # by the name of the resource; None deletes


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
    _alter(
        cluster,
        None,
        ResourceKind.TOPIC,
        {topic: {LEADER_REPLICAS: each.leaders, FOLLOWER_REPLICAS: each.followers} for topic, each in replicas.items()},
    )
    return _alter_brokers(cluster, brokers, {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)})


def set_directory_throttle(cluster: ClusterClient, brokers: Iterable[BrokerState], rate: int) -> list[int]:
    return _alter_brokers(cluster, brokers, {DIRECTORY_RATE: str(rate)})


def remove_throttles(cluster: ClusterClient, brokers: Mapping[int, BrokerState], found: SetThrottles) -> list[int]:
    """The brokers first: without a rate nothing is slow any more. Brokers that do not answer are returned."""
    missed = []
    for node_id, keys in found.brokers.items():
        missed += _alter_brokers(cluster, [brokers[node_id]], dict.fromkeys(keys))
    topics = {topic: dict.fromkeys(keys) for topic, keys in found.topics.items()}
    _alter(cluster, None, ResourceKind.TOPIC, topics)
    return missed


def find_throttles(cluster: ClusterClient, brokers: Iterable[BrokerState], topics: Iterable[str]) -> SetThrottles:
    found_topics = _describe(cluster, None, ResourceKind.TOPIC, topics, THROTTLED_REPLICAS, _DYNAMIC_TOPIC)
    found_brokers: dict[int, dict[str, str]] = {}
    silent = []
    for node in brokers:
        try:
            found = _describe(
                cluster, (node.host, node.port), ResourceKind.BROKER, [str(node.node_id)], _BROKER_KEYS, _DYNAMIC_BROKER
            )
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
            _alter(cluster, (node.host, node.port), ResourceKind.BROKER, {str(node.node_id): values})
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            missed.append(node.node_id)
    return missed


def _alter(cluster: ClusterClient, address: Address | None, kind: ResourceKind, changes: Changes) -> None:
    if not changes:
        return
    resources = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(
                    name=key,
                    config_operation=SettingOperation.DELETE if value is None else SettingOperation.SET,
                    value=value,
                )
                for key, value in values.items()
            ],
        )
        for name, values in changes.items()
    ]
    with open_broker(cluster, address, BROKER_PATIENCE_S) as broker:
        response = broker.request(IncrementalAlterConfigsRequest(resources=resources), IncrementalAlterConfigsResponse)
    for answer in response.responses:
        if answer.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile: nothing to slow down
            check_error(answer.error_code, f"{kind.name.lower()} {answer.resource_name}", answer.error_message)


def _describe(
    cluster: ClusterClient,
    address: Address | None,
    kind: ResourceKind,
    names: Iterable[str],
    keys: tuple[str, ...],
    source: int,
) -> dict[str, dict[str, str]]:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys)) for name in names
    ]
    if not resources:
        return {}
    with open_broker(cluster, address, BROKER_PATIENCE_S) as broker:
        response = broker.request(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    found = {}
    for answer in response.results:
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        check_error(answer.error_code, f"{kind.name.lower()} {answer.resource_name}", answer.error_message)
        # A broker that does not know a key keeps the value to itself, and has it even so.
        values = {each.name: each.value or "" for each in answer.configs if each.config_source == source}
        if values:
            found[answer.resource_name] = values
    return found
