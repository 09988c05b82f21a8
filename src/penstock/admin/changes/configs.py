"""Settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.admin.changes.outcomes import answer_or_error, ask_each_node, refusals
from penstock.admin.state.configs import ConfigPlace
from penstock.client.brokers import Brokers
from penstock.core.config.changes import ConfigOperation
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_DELETE = ConfigOperation.DELETE
_SET = ConfigOperation.SET


async def alter_configs(
    brokers: Brokers, changes: Mapping[ConfigPlace, Mapping[str, str | None]], *, only_check: bool = False
) -> dict[ConfigPlace, ApiError]:
    """The new values; None takes a setting back to its default. What is not named stays."""
    by_node: dict[int | None, list[AlterConfigsResource]] = {}
    for place, values in changes.items():
        rows = [
            AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
            for name, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=place.kind, resource_name=place.name, configs=rows)
        by_node.setdefault(place.node_id, []).append(resource)
    requests = {
        node_id: IncrementalAlterConfigsRequest(resources=resources, validate_only=only_check)
        for node_id, resources in by_node.items()
    }
    common = requests.pop(None, None)
    refused: dict[ConfigPlace, ApiError] = {}
    if common is not None:
        asking = brokers.ask_controller(common, retry=True)
        refused |= _refusals(common, await (answer_or_error(asking) if requests else asking))
    own = {node_id: [request] for node_id, request in requests.items() if node_id is not None}
    for _, request, answer in await ask_each_node(brokers, own):
        refused |= _refusals(request, answer)
    return refused


def _refusals(
    request: IncrementalAlterConfigsRequest, answer: IncrementalAlterConfigsResponse | ApiError
) -> dict[ConfigPlace, ApiError]:
    if isinstance(answer, ApiError):
        return {ConfigPlace(row.resource_type, row.resource_name): answer for row in request.resources}
    return refusals((ConfigPlace(row.resource_type, row.resource_name), row) for row in answer.responses)
