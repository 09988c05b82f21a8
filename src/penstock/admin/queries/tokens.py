"""Delegation tokens. Principals are as in ACLs: `User:alice`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.admin.state.tokens import TokenState
from penstock.protocol.errors import ErrorCode, error_of
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


def describe_tokens(owners: Iterable[str] | None) -> DescribeDelegationTokenRequest:
    """None asks for all that the caller may see."""
    if owners is None:
        return DescribeDelegationTokenRequest(owners=None)
    rows = [
        DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
        for kind, name in map(_split_principal, owners)
    ]
    return DescribeDelegationTokenRequest(owners=rows)


def read_tokens(answer: DescribeDelegationTokenResponse) -> dict[str, TokenState]:
    """By id, the oldest first. Raises ApiError."""
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code)
    found = (_token(row) for row in answer.tokens)
    return {each.token_id: each for each in sorted(found, key=lambda each: (each.issued_ms, each.token_id))}


def create_token(owner: str | None, renewers: Iterable[str], max_lifetime_ms: int) -> CreateDelegationTokenRequest:
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_split_principal, renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = _split_principal(owner)
    return request


def read_created_token(answer: CreateDelegationTokenResponse, renewers: Iterable[str]) -> TokenState:
    """Raises ApiError."""
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code)
    owner = _join(answer.principal_type, answer.principal_name)
    return TokenState(
        answer.token_id,
        answer.hmac,
        owner,
        _join(answer.token_requester_principal_type, answer.token_requester_principal_name) or owner,
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
        tuple(renewers),
    )


def _token(row: DescribedDelegationToken) -> TokenState:
    owner = _join(row.principal_type, row.principal_name)
    return TokenState(
        row.token_id,
        row.hmac,
        owner,
        _join(row.token_requester_principal_type, row.token_requester_principal_name) or owner,
        row.issue_timestamp,
        row.expiry_timestamp,
        row.max_timestamp,
        tuple(_join(each.principal_type, each.principal_name) for each in row.renewers),
    )


def _join(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind else ""


def _split_principal(principal: str) -> tuple[str, str]:
    """Raises ValueError."""
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{principal!r} is no principal: write it like User:alice")
    return kind, name
