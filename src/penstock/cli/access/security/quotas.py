"""Quotas of clients, read and set over our own connection: librdkafka has no request for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import penstock.admin.queries.quotas as queries
from penstock.admin.state.quotas import QuotaEntity
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.views.quotas import Entity, SetQuotas, show_entity
from penstock.protocol.messages.alter_client_quotas import AlterClientQuotasResponse
from penstock.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from penstock.security.quotas.alterations import Component


def read_quotas(cluster: ClusterClient, parts: Sequence[Component], *, strict: bool = False) -> list[SetQuotas]:
    with open_broker(cluster) as broker:
        response = broker.request(queries.describe_quotas(parts, is_strict=strict), DescribeClientQuotasResponse)
    check_error(response.error_code, "quotas", response.error_message)
    return [SetQuotas(dict(entity.names), values) for entity, values in queries.read_quotas(response).items()]


def alter_quotas(
    cluster: ClusterClient, entity: Entity, values: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """A value of None removes."""
    request = queries.alter_quotas({QuotaEntity.of(entity): values}, only_check=validate_only)
    with open_broker(cluster) as broker:
        response = broker.request(request, AlterClientQuotasResponse)
    for answer in response.entries:
        check_error(answer.error_code, show_entity(entity), answer.error_message)
