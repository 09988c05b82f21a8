"""Shows and sets quotas of clients: DescribeClientQuotas, AlterClientQuotas."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.forwarding.refusals import refuse_quotas
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work, collect
from penstock.cluster.decisions.security.client_quotas import AlterQuotaResult, decide_alter_client_quotas
from penstock.cluster.metadata import Metadata, answer_each
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages import alter_client_quotas as alter_messages
from penstock.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from penstock.security.quotas.alterations import Component, EntityChange, QuotaChange, check_filter, matching
from penstock.security.quotas.entities import Quota, stored_quotas


class QuotaPort(Protocol):
    """The parts of the broker that the handlers of quotas use."""

    authorizer: Authorizer
    metadata: Metadata
    slices: Slices


def describe_client_quotas(
    broker: QuotaPort, context: RequestContext, request: DescribeClientQuotasRequest
) -> Work[DescribeClientQuotasResponse]:
    """Lists the quotas that match a filter, or gives an error for a filter that Kafka refuses too.

    Version 1 is flexible. The entries are null beside an error.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    components = yield from collect(
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    )
    check_filter(components)
    quotas = stored_quotas(broker.metadata.image.security.entity_configs)
    found = matching(quotas, components, strict=request.strict)
    entries = yield from collect(_described(quota) for quota in found)
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _described(quota: Quota) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=each, entity_name=name) for each, name in quota.names.items()],
        values=[ValueData(key=key, value=value) for key, value in quota.values.items()],
    )


async def alter_client_quotas(
    broker: QuotaPort, context: RequestContext, request: alter_messages.AlterClientQuotasRequest
) -> alter_messages.AlterClientQuotasResponse:
    """Sets and removes quotas of users, client ids and addresses, or only checks the changes.

    The controller changes an entity as a whole or not at all, and its error concerns the entity alone. Version 1 is
    flexible.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return refuse_quotas(request, code, describe(code))
    changes = [_change(entry) async for entry in broker.slices.each(request.entries)]
    results = await answer_each(
        broker.metadata.security.apply(
            lambda security: decide_alter_client_quotas(security, changes, validate_only=request.validate_only)
        ),
        lambda code, message: (AlterQuotaResult(change.names, code, message) for change in changes),
    )
    response = alter_messages.AlterClientQuotasResponse()
    async for names, code, message in broker.slices.each(results):
        entity = [alter_messages.EntityData(entity_type=each, entity_name=name) for each, name in names.items()]
        response.entries.append(alter_messages.EntryData(error_code=code, error_message=message, entity=entity))
    return response


def _change(entry: alter_messages.AlterClientQuotasRequestEntryData) -> EntityChange:
    return EntityChange(
        {each.entity_type: each.entity_name for each in entry.entity},
        tuple(QuotaChange(each.key, None if each.remove else each.value) for each in entry.ops),
    )
