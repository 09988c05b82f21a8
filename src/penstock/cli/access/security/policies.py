"""Policies over the wire: settings of a resource of Penstock's own. Apache Kafka has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import penstock.admin.queries.policies as queries
from penstock.admin.queries.configs import alteration, changes_of, configs_requests, read_settings
from penstock.admin.queries.policies import Policies
from penstock.admin.state.configs import ConfigPlace
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker, refusal
from penstock.cli.errors import CliError
from penstock.client.versioned_client import VersionedClient
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_configs import AlterConfigsResponse
from penstock.protocol.messages.describe_configs import DescribeConfigsResponse
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from penstock.protocol.messages.list_config_resources import ListConfigResourcesResponse


def read_policies(cluster: ClusterClient) -> Policies:
    """By name. Raises CliError, also where the brokers are not Penstock's."""
    with open_broker(cluster) as broker:
        policies = find_policies(broker)
        host, port = broker.address
    if policies is None:
        told = f"{host}:{port}: this broker has no policies"
        raise CliError(told, "Policies are Penstock's own; Apache Kafka has ACLs alone.")
    return policies


def find_policies(broker: VersionedClient) -> Policies | None:
    """None where the brokers do not know policies."""
    request = queries.policies_request()
    try:
        if queries.explain_unknown_policies(broker.version_of(request)) is not None:
            return None
        names = queries.read_policy_names(broker.request(request, ListConfigResourcesResponse))
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise refusal(error, "policies") from error
    return read_values(broker, [ConfigPlace.policy(name) for name in names])


def read_values(broker: VersionedClient, places: Sequence[ConfigPlace], keys: Sequence[str] | None = None) -> Policies:
    """The settings that are told, by the names of their places. What is not there, or may not be seen, has none."""
    found: Policies = {}
    for request in configs_requests(places, keys):
        found |= queries.read_policies(read_settings(broker.request(request, DescribeConfigsResponse)).found)
    return found


def change_policy(cluster: ClusterClient, name: str, settings: Mapping[str, str | None]) -> None:
    """Sets what has a value, and takes away what has none."""
    request = alteration({ConfigPlace.policy(name): changes_of(settings)})
    with open_broker(cluster) as broker:
        response = broker.request(request, IncrementalAlterConfigsResponse)
    for answer in response.responses:
        check_error(answer.error_code, f"policy {name}", answer.error_message)


def remove_policy(cluster: ClusterClient, name: str) -> None:
    with open_broker(cluster) as broker:
        response = broker.request(queries.deletion_of_policy(name), AlterConfigsResponse)
    for answer in response.responses:
        check_error(answer.error_code, f"policy {name}", answer.error_message)
