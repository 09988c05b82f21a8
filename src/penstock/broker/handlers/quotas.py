"""Quotas of clients: DescribeClientQuotas. No quota can be set yet, so there is none to describe.

AlterClientQuotas is not served: a client that wants to set a quota learns from ApiVersions that there are none.
"""

from __future__ import annotations

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext, shorten
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
# How a component's match is meant: this name, the entry for every name without its own, or any name.
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


def describe_client_quotas(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """The quotas that match a filter: an empty list, or an error for a filter that Kafka refuses too.

    Version 1 is flexible. The entries are null beside an error.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _check_filter(request.components)
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def _check_filter(components: list[ComponentData]) -> None:
    """Raises ApiError with the codes and texts of Kafka."""
    entity_types: set[str] = set()
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if entity_type in entity_types:
            message = f"Entity type {entity_type} cannot appear more than once in the filter."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        if entity_type not in (_USER, _CLIENT_ID, _IP):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {shorten(entity_type)}")
        entity_types.add(entity_type)
        _check_match(component)
    if _IP in entity_types and len(entity_types) > 1:
        message = (
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_match(component: ComponentData) -> None:
    match_type = component.match_type
    if match_type == _EXACT:
        if component.match is None:
            message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    elif match_type in (_DEFAULT, _SPECIFIED):
        if component.match is not None:
            name = "MATCH_TYPE_DEFAULT" if match_type == _DEFAULT else "MATCH_TYPE_SPECIFIED"
            message = f"Request specified {name}, but also specified a match string."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    else:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
