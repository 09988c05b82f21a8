"""Quotas of clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.admin.state.quotas import QuotaEntity
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from penstock.security.quotas.alterations import Component

Quotas = dict[QuotaEntity, dict[str, float]]


def describe_quotas(components: Iterable[Component], *, is_strict: bool = False) -> DescribeClientQuotasRequest:
    """`is_strict` leaves out entities that have a type which no component names."""
    rows = [
        ComponentData(entity_type=each.entity_type, match_type=each.match_type, match=each.match) for each in components
    ]
    return DescribeClientQuotasRequest(components=rows, strict=is_strict)


def read_quotas(answer: DescribeClientQuotasResponse) -> Quotas:
    """In the order of the answer. Raises ApiError."""
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code, answer.error_message or None)
    return {
        QuotaEntity.of({each.entity_type: each.entity_name for each in row.entity}): {
            each.key: each.value for each in row.values
        }
        for row in answer.entries or ()
    }


def alter_quotas(
    values: Mapping[QuotaEntity, Mapping[str, float | None]], *, only_check: bool = False
) -> AlterClientQuotasRequest:
    """None takes a quota away."""
    rows = [
        AlterClientQuotasRequestEntryData(
            entity=[
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.names
            ],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in own.items()],
        )
        for entity, own in values.items()
    ]
    return AlterClientQuotasRequest(entries=rows, validate_only=only_check)
