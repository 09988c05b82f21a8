"""Policies on tags: settings of a resource of Penstock's own. Apache Kafka has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.admin.queries.configs import Settings
from penstock.core.config.resources import ConfigResourceType
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from penstock.admin.look import Look

_POLICY = ConfigResourceType.POLICY
# The first version of ListConfigResources with types. They are left out of an older one without a word.
_TYPES_SINCE = 1

Policies = dict[str, Mapping[str, str]]


def policies_request() -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[_POLICY])


def explain_unknown_policies(version: int) -> ApiError | None:
    """Why a broker with this version cannot be asked: it would list client metrics instead."""
    if version >= _TYPES_SINCE:
        return None
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, "it has no policies: it lists client metrics alone")


async def list_policies(look: Look) -> list[str]:
    """Their names. Raises OSError, and what `read_policy_names` raises."""
    return read_policy_names(await look.ask_any(policies_request(), explain=explain_unknown_policies))


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
