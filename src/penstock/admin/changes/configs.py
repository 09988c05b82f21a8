"""Settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.admin.changes.outcomes import answer_or_error, ask_each_node
from penstock.admin.queries.configs import alteration, changes_of
from penstock.admin.queries.refusals import refusals
from penstock.admin.state.configs import ConfigPlace
from penstock.client.brokers import Brokers
from penstock.core.config.resources import ConfigChange
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def alter_configs(
    brokers: Brokers, changes: Mapping[ConfigPlace, Mapping[str, str | None]], *, only_check: bool = False
) -> dict[ConfigPlace, ApiError]:
    """The new values; None takes a setting back to its default. What is not named stays."""
    by_node: dict[int | None, dict[ConfigPlace, list[ConfigChange]]] = {}
    for place, values in changes.items():
        by_node.setdefault(place.node_id, {})[place] = changes_of(values)
    requests = {node_id: alteration(own, only_check=only_check) for node_id, own in by_node.items()}
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
