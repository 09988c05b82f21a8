"""Quotas of clients, set and taken away."""

from __future__ import annotations

from collections.abc import Mapping

import penstock.admin.queries.quotas as queries
from penstock.admin.queries.refusals import refusals
from penstock.admin.state.quotas import QuotaEntity
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.alter_client_quotas import AlterClientQuotasResponse


async def alter_quotas(
    brokers: Brokers, values: Mapping[QuotaEntity, Mapping[str, float | None]], *, only_check: bool = False
) -> dict[QuotaEntity, ApiError]:
    request = queries.alter_quotas(values, only_check=only_check)
    answer: AlterClientQuotasResponse = await brokers.ask_controller(request, retry=True)
    return refusals(
        (QuotaEntity.of({each.entity_type: each.entity_name for each in row.entity}), row) for row in answer.entries
    )
