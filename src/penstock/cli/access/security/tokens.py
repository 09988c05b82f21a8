"""Delegation tokens of a cluster, asked for over the wire."""

from __future__ import annotations

from collections.abc import Sequence

import penstock.admin.queries.tokens as queries
from penstock.admin.state.tokens import TokenState
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError
from penstock.cli.plans.acls import parse_principal
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from penstock.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

LONGEST_MS = -1  # as long as the brokers allow


def create_token(
    cluster: ClusterClient, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int
) -> TokenState:
    others = [parse_principal(each) for each in renewers]
    request = queries.create_token(None if owner is None else parse_principal(owner), others, max_lifetime_ms)
    with open_broker(cluster) as broker:
        response = broker.request(request, CreateDelegationTokenResponse)
    check_error(response.error_code, "the token was not created")
    return queries.read_created_token(response, others)


def list_tokens(cluster: ClusterClient, owners: Sequence[str] = ()) -> list[TokenState]:
    """Those that whoever asks may see."""
    wanted = [parse_principal(each) for each in owners]
    with open_broker(cluster) as broker:
        response = broker.request(queries.describe_tokens(wanted or None), DescribeDelegationTokenResponse)
    check_error(response.error_code, "tokens")
    return list(queries.read_tokens(response).values())


def renew_token(cluster: ClusterClient, token_id: str, period_ms: int) -> int:
    """When the token expires, in ms since 1970."""
    request = RenewDelegationTokenRequest(hmac=_find(cluster, token_id).hmac, renew_period_ms=period_ms)
    with open_broker(cluster) as broker:
        response = broker.request(request, RenewDelegationTokenResponse)
    check_error(response.error_code, f"token {token_id}")
    return response.expiry_timestamp_ms


def expire_token(cluster: ClusterClient, token_id: str, period_ms: int) -> int:
    """When the token expires, in ms since 1970; a negative period ends it at once."""
    request = ExpireDelegationTokenRequest(hmac=_find(cluster, token_id).hmac, expiry_time_period_ms=period_ms)
    with open_broker(cluster) as broker:
        response = broker.request(request, ExpireDelegationTokenResponse)
    check_error(response.error_code, f"token {token_id}")
    return response.expiry_timestamp_ms


def _find(cluster: ClusterClient, token_id: str) -> TokenState:
    for token in list_tokens(cluster):
        if token.token_id == token_id:
            return token
    raise CliError(f"there is no token {token_id} that you may see", "`penstock tokens list` shows them.")
