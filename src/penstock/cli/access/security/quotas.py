"""Quotas of clients, read and set over our own connection: librdkafka has no request for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cli.access.cluster_client import Cluster
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.views.quotas import Entity, FilterPart, SetQuotas, show_entity
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def read_quotas(cluster: Cluster, parts: Sequence[FilterPart], *, strict: bool = False) -> list[SetQuotas]:
    components = [
        ComponentData(entity_type=part.entity_type, match_type=part.match_type, match=part.match) for part in parts
    ]
    with open_broker(cluster) as broker:
        response = broker.request(
            DescribeClientQuotasRequest(components=components, strict=strict), DescribeClientQuotasResponse
        )
    check_error(response.error_code, "quotas", response.error_message)
    return [
        SetQuotas(
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in response.entries or ()
    ]


def alter_quotas(
    cluster: Cluster, entity: Entity, values: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """A value of None removes."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=entity_type, entity_name=name)
            for entity_type, name in entity.items()
        ],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    with open_broker(cluster) as broker:
        response = broker.request(
            AlterClientQuotasRequest(entries=[entry], validate_only=validate_only), AlterClientQuotasResponse
        )
    for answer in response.entries:
        check_error(answer.error_code, show_entity(entity), answer.error_message)
