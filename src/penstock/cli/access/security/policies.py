"""Policies over the wire: settings of a resource of Penstock's own. Apache Kafka has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError
from penstock.client.versioned_client import UnservedApiError, VersionedClient
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

POLICY = 120  # the type of the resource
_FIRST_LISTING_OF_ALL_TYPES = 1
_SET, _DELETE = 0, 1

Settings = Mapping[str, str]


def read_policies(cluster: ClusterClient) -> dict[str, Settings]:
    """By name. Raises CliError, also where the brokers are not Penstock's."""
    with open_broker(cluster) as broker:
        policies = find_policies(broker)
    if policies is None:
        raise CliError("these brokers have no policies", "Policies are Penstock's own; Apache Kafka has ACLs alone.")
    return policies


def find_policies(broker: VersionedClient) -> dict[str, Settings] | None:
    """None where the brokers do not know policies."""
    request = ListConfigResourcesRequest(resource_types=[POLICY])
    try:
        response = broker.request(request, ListConfigResourcesResponse)
    except UnservedApiError:
        return None
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return None
    check_error(response.error_code, "policies")
    names = sorted(each.resource_name for each in response.config_resources if each.resource_type == POLICY)
    return read_settings(broker, POLICY, names)


def read_settings(
    broker: VersionedClient, kind: int, names: Sequence[str], keys: Sequence[str] | None = None
) -> dict[str, Settings]:
    """The settings of resources that are told, by name. What is not there, or may not be seen, has none."""
    if not names:
        return {}
    wanted = None if keys is None else list(keys)
    resources = [
        describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=wanted)
        for name in names
    ]
    request = describe_configs.DescribeConfigsRequest(resources=resources)
    response = broker.request(request, describe_configs.DescribeConfigsResponse)
    return {
        result.resource_name: {entry.name: entry.value for entry in result.configs if entry.value is not None}
        for result in response.results
        if result.error_code == ErrorCode.NONE
    }


def change_policy(cluster: ClusterClient, name: str, settings: Mapping[str, str | None]) -> None:
    """Sets what has a value, and takes away what has none."""
    configs = [
        incremental_alter_configs.AlterableConfig(
            name=key, config_operation=_DELETE if value is None else _SET, value=value
        )
        for key, value in settings.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=POLICY, resource_name=name, configs=configs)
    with open_broker(cluster) as broker:
        response = broker.request(
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]),
            incremental_alter_configs.IncrementalAlterConfigsResponse,
        )
    for answer in response.responses:
        check_error(answer.error_code, f"policy {name}", answer.error_message)


def remove_policy(cluster: ClusterClient, name: str) -> None:
    resource = alter_configs.AlterConfigsResource(resource_type=POLICY, resource_name=name, configs=[])
    with open_broker(cluster) as broker:
        response = broker.request(
            alter_configs.AlterConfigsRequest(resources=[resource]), alter_configs.AlterConfigsResponse
        )
    for answer in response.responses:
        check_error(answer.error_code, f"policy {name}", answer.error_message)
