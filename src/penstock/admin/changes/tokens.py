"""Delegation tokens created, renewed and ended. Each raises ApiError: a request is about one token."""

from __future__ import annotations

from collections.abc import Sequence

import penstock.admin.queries.tokens as queries
from penstock.admin.queries.refusals import check
from penstock.admin.state.tokens import TokenState
from penstock.client.brokers import Brokers
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def create_token(
    brokers: Brokers, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int
) -> TokenState:
    request = queries.create_token(owner, renewers, max_lifetime_ms)
    answer: CreateDelegationTokenResponse = await brokers.ask_controller(request)
    return queries.read_created_token(answer, renewers)


async def renew_token(brokers: Brokers, hmac: bytes, period_ms: int) -> int:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer: RenewDelegationTokenResponse = await brokers.ask_controller(request, retry=True)
    check(answer.error_code)
    return answer.expiry_timestamp_ms


async def expire_token(brokers: Brokers, hmac: bytes, period_ms: int) -> int:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer: ExpireDelegationTokenResponse = await brokers.ask_controller(request, retry=True)
    check(answer.error_code)
    return answer.expiry_timestamp_ms
