"""Delegation tokens of a cluster, asked for over the wire."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.access.cluster_client import Cluster
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError
from penstock.cli.plans.acls import parse_principal
from penstock.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

LONGEST_MS = -1  # as long as the brokers allow


def _split_principal(text: str) -> tuple[str, str]:
    kind, _, name = parse_principal(text).partition(":")
    return kind, name


def create_token(
    cluster: Cluster, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_split_principal, renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = _split_principal(owner)
    with open_broker(cluster) as broker:
        response = broker.request(request, CreateDelegationTokenResponse)
    check_error(response.error_code, "the token was not created")
    return response


def list_tokens(cluster: Cluster, owners: Sequence[str] = ()) -> list[DescribedDelegationToken]:
    """Those that whoever asks may see."""
    wanted = [
        DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
        for kind, name in map(_split_principal, owners)
    ]
    with open_broker(cluster) as broker:
        response = broker.request(
            DescribeDelegationTokenRequest(owners=wanted or None), DescribeDelegationTokenResponse
        )
    check_error(response.error_code, "tokens")
    return sorted(response.tokens, key=lambda token: (token.issue_timestamp, token.token_id))


def renew_token(cluster: Cluster, token_id: str, period_ms: int) -> int:
    """When the token expires, in ms since 1970."""
    request = RenewDelegationTokenRequest(hmac=_find(cluster, token_id).hmac, renew_period_ms=period_ms)
    with open_broker(cluster) as broker:
        response = broker.request(request, RenewDelegationTokenResponse)
    check_error(response.error_code, f"token {token_id}")
    return response.expiry_timestamp_ms


def expire_token(cluster: Cluster, token_id: str, period_ms: int) -> int:
    """When the token expires, in ms since 1970; a negative period ends it at once."""
    request = ExpireDelegationTokenRequest(hmac=_find(cluster, token_id).hmac, expiry_time_period_ms=period_ms)
    with open_broker(cluster) as broker:
        response = broker.request(request, ExpireDelegationTokenResponse)
    check_error(response.error_code, f"token {token_id}")
    return response.expiry_timestamp_ms


def _find(cluster: Cluster, token_id: str) -> DescribedDelegationToken:
    for token in list_tokens(cluster):
        if token.token_id == token_id:
            return token
    raise CliError(f"there is no token {token_id} that you may see", "`penstock tokens list` shows them.")
