"""Policies on tags: settings of a resource of Penstock's own. Apache Kafka has none."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.admin.queries.configs import Settings
from penstock.core.config.resources import ConfigResourceType
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

_POLICY = ConfigResourceType.POLICY

Policies = dict[str, Mapping[str, str]]


def policies_request() -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[_POLICY])


def read_policy_names(answer: ListConfigResourcesResponse) -> list[str]:
    """In order. Raises ApiError; UNSUPPORTED_VERSION where the brokers do not know policies."""
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code)
    return sorted(each.resource_name for each in answer.config_resources if each.resource_type == _POLICY)


def read_policies(settings: Settings) -> Policies:
    return {
        place.name: {each.name: each.value for each in own.values() if each.value is not None}
        for place, own in settings.items()
    }


def deletion_of_policy(name: str) -> AlterConfigsRequest:
    """A policy without settings is none."""
    resource = AlterConfigsResource(resource_type=_POLICY, resource_name=name, configs=[])
    return AlterConfigsRequest(resources=[resource])
