"""Reading and changing settings. The client library refuses broker defaults, so those go over our own connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.cli.access.cluster_client import (
    REQUEST_TIMEOUT_SECONDS,
    ClusterClient,
    fetch_metadata,
    raise_failures,
    wait_each,
)
from penstock.cli.errors import CliError
from penstock.cli.views.configs import Resource, ResourceKind, Setting
from penstock.core.config.resources import ConfigChange

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def read_settings(cluster: ClusterClient, resources: Iterable[Resource]) -> dict[Resource, list[Setting]]:
    from penstock.cli.access.admin_types import ConfigResource, ResourceType

    wanted = list(resources)
    settings = {resource: _read_broker_defaults(cluster) for resource in wanted if resource.is_broker_default}
    named = {
        ConfigResource(ResourceType(resource.kind), resource.name): resource
        for resource in wanted
        if not resource.is_broker_default
    }
    if named:
        admin = cluster.admin()
        check_brokers(admin, named.values())
        futures = admin.describe_configs(list(named), request_timeout=REQUEST_TIMEOUT_SECONDS)
        results, failures = wait_each({named[key]: future for key, future in futures.items()})
        raise_failures(failures.values())
        for resource, entries in results.items():
            settings[resource] = [
                Setting(entry.name, entry.value, entry.source, entry.is_read_only, entry.is_sensitive)
                for entry in entries.values()
            ]
    return settings


def check_brokers(admin: AdminClient, resources: Iterable[Resource]) -> None:
    """A request for a broker goes to that broker, and one that does not exist would only be waited for."""
    wanted = [resource for resource in resources if resource.kind is ResourceKind.BROKER]
    existing = fetch_metadata(admin).brokers if wanted else {}
    for resource in wanted:
        if int(resource.name) not in existing:
            raise CliError(f"there is no broker {resource.name}", f"There are {', '.join(map(str, sorted(existing)))}.")


def alter_settings(
    cluster: ClusterClient, resource: Resource, changes: list[ConfigChange], validate_only: bool
) -> None:
    if resource.is_broker_default:
        _alter_broker_defaults(cluster, changes, validate_only)
        return
    from penstock.cli.access.admin_types import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entries = [
        ConfigEntry(change.name, change.value, incremental_operation=AlterConfigOpType(change.operation))
        for change in changes
    ]
    request = ConfigResource(ResourceType(resource.kind), resource.name, incremental_configs=entries)
    admin = cluster.admin()
    check_brokers(admin, [resource])
    futures = admin.incremental_alter_configs(
        [request], validate_only=validate_only, request_timeout=REQUEST_TIMEOUT_SECONDS
    )
    _, failures = wait_each(dict(zip([resource], futures.values(), strict=True)))
    raise_failures(failures.values())


def _read_broker_defaults(cluster: ClusterClient) -> list[Setting]:
    from penstock.admin.queries.configs import configs_requests
    from penstock.admin.state.configs import ConfigPlace
    from penstock.cli.access.raw_client import check_error, open_broker
    from penstock.protocol.messages.describe_configs import DescribeConfigsResponse

    (request,) = configs_requests([ConfigPlace.all_brokers()])
    with open_broker(cluster) as broker:
        result = broker.request(request, DescribeConfigsResponse).results[0]
    check_error(result.error_code, "broker defaults", result.error_message)
    return [
        Setting(config.name, config.value, config.config_source, config.read_only, config.is_sensitive)
        for config in result.configs
    ]


def _alter_broker_defaults(cluster: ClusterClient, changes: list[ConfigChange], validate_only: bool) -> None:
    from penstock.admin.queries.configs import alteration
    from penstock.admin.state.configs import ConfigPlace
    from penstock.cli.access.raw_client import check_error, open_broker
    from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse

    request = alteration({ConfigPlace.all_brokers(): changes}, only_check=validate_only)
    with open_broker(cluster) as broker:
        result = broker.request(request, IncrementalAlterConfigsResponse).responses[0]
    check_error(result.error_code, "broker defaults", result.error_message)
