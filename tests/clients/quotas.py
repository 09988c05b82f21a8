"""Quotas set over the wire, for tests with real clients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)

Entity = dict[str, str | None]


def set_quotas(servers: str, entity: Entity, values: dict[str, float | None]) -> None:
    """A value of None removes."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    host, _, port = servers.split(",")[0].rpartition(":")
    with BlockingConnection(host, int(port)) as connection:
        response = connection.request(AlterClientQuotasRequest(entries=[entry]), 1)
    assert isinstance(response, AlterClientQuotasResponse)
    assert [(each.error_code, each.error_message) for each in response.entries] == [(ErrorCode.NONE, None)]


@contextlib.contextmanager
def quotas(servers: str, entity: Entity, **values: float) -> Iterator[None]:
    set_quotas(servers, entity, dict(values))
    try:
        yield
    finally:
        set_quotas(servers, entity, dict.fromkeys(values))
