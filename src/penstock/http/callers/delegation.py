"""Delegation tokens for callers that the service knows and the brokers do not (a certificate cannot be passed on): the
service makes a token with the caller as its owner (KIP-373), and the caller's connections log in with the token.

Rules:
- The service's own principal needs the right CreateTokens on the resource User of every owner, and a login at the
  brokers that is neither anonymous nor a token itself.
- A token lives for an hour at most, so that little is left when the service is killed. Before its end another token
  takes its place: Kafka's period to the first renewal is as long as that to the end, a day, so that only a short
  maximum keeps a token's life short. Connections log in again in time (KIP-368), as the same principal.
- A token is ended when its client closes. Kafka lets owners and renewers end a token, but not its requester, so the
  service makes itself a renewer. A first token, for the service itself, shows its own name and is ended at once.
- No part of a token is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from penstock.client.connection.login import LoginRefusedError
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.security import ClientSecurity
from penstock.core.time.backoff import Backoff, Pauses
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.protocol.errors import ApiError, ErrorCode, error_of, known_code
from penstock.protocol.message import Message
from penstock.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.security.sasl.exchange import ClientExchange
from penstock.security.sasl.scram import SHA_512, ScramHash
from penstock.security.sasl.scram_client import ScramCredentials
from penstock.security.tokens.tokens import token_password

logger = logging.getLogger(__name__)

# Sends a request to any broker, in the name of the service itself.
Ask = Callable[[Message], Awaitable[Any]]

_LIFE_MS = 3_600_000
# Connections log in again at 0.85 of a token's life (client.connection.login): its successor is there before.
_REPLACED_AT = 0.7
# The pause before the first use: brokers learn of a token a moment after its creation.
_KNOWN_WITHIN_S = 10.0
_ASKED_EVERY_S = 0.05
# Services that lost the same broker do not come back together.
_BACKOFF = Backoff(1.0, 10.0)
_MOST_SEARCHES = 10
_END_NOW = -1


class _Token(NamedTuple):
    hmac: bytes
    life_s: float
    credentials: ScramCredentials

    def __repr__(self) -> str:
        return "_Token"


class DelegatedCredentials:
    """The credentials of the current token."""

    def __init__(self, first: ScramCredentials) -> None:
        self.mechanism = first.mechanism
        self.current = first

    def begin(self, host: str) -> ClientExchange:
        return self.current.begin(host)


class Delegated(Protocol):
    @property
    def security(self) -> ClientSecurity: ...

    async def end(self) -> None: ...


class Delegates(Protocol):
    async def delegate(self, principal: str) -> Delegated:
        """Raises ApiError where the brokers refuse, OSError where none is reachable."""


class DelegationTokens:
    """`ask` goes to the brokers as the service, `logins` are for callers."""

    def __init__(
        self, ask: Ask, logins: BrokerLogins, *, hashing: ScramHash = SHA_512, life_ms: int = _LIFE_MS
    ) -> None:
        self._ask = ask
        self._logins = logins
        self._hashing = hashing
        self._life_ms = life_ms
        self._own: CreatableRenewers | None = None

    async def delegate(self, principal: str) -> DelegatedToken:
        token = await self.make(principal)
        return DelegatedToken(self, principal, token, self._logins.security(DelegatedCredentials(token.credentials)))

    async def make(self, principal: str) -> _Token:
        """Makes a token and waits until the brokers know it."""
        if self._own is None:
            own = await self._create(CreateDelegationTokenRequest(max_lifetime_ms=self._life_ms))
            await self.expire(own.hmac)
            self._own = CreatableRenewers(principal_type=own.principal_type, principal_name=own.principal_name)
        kind, _, name = principal.partition(":")
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[self._own],
            max_lifetime_ms=self._life_ms,
        )
        answer = await self._create(request)
        if answer.principal_name != name:  # a broker that does not know owners makes a token for the service
            await self.expire(answer.hmac)
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "the brokers make no tokens for others (KIP-373)")
        credentials = ScramCredentials(self._hashing, answer.token_id, token_password(answer.hmac), is_token=True)
        token = _Token(answer.hmac, (answer.expiry_timestamp_ms - answer.issue_timestamp_ms) / 1000, credentials)
        try:
            await self._wait_until_known(token)
        except BaseException:
            await self.expire(token.hmac)
            raise
        return token

    async def _create(self, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
        answer: CreateDelegationTokenResponse = await self._ask(request)
        if answer.error_code:
            raise error_of(answer.error_code)
        return answer

    async def _wait_until_known(self, token: _Token) -> None:
        async with asyncio.timeout(_KNOWN_WITHIN_S):
            while True:
                try:
                    await self._logins.prove_everywhere(token.credentials)
                except LoginRefusedError:
                    await asyncio.sleep(_ASKED_EVERY_S)
                else:
                    return

    async def expire(self, hmac: bytes) -> None:
        """Ends a token. Logs a failure: the token ends by itself, later. Kafka's controller does not find a token that
        it made a moment ago, so the request is repeated; it does not find a token that ended by itself, either.
        """
        reason = ""
        for _ in range(_MOST_SEARCHES):
            try:
                answer = await self._ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=_END_NOW))
            except (OSError, ApiError) as error:
                reason = type(error).__name__
                break
            code = known_code(answer.error_code)
            if code in (ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_EXPIRED):
                return
            reason = code.name
            if code is not ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
                break
            await asyncio.sleep(_ASKED_EVERY_S)
        logger.warning("a delegation token could not be ended", extra={"reason": reason})


class DelegatedToken:
    """The token of one caller, and its successors, until `end`."""

    def __init__(self, tokens: DelegationTokens, principal: str, first: _Token, security: ClientSecurity) -> None:
        self.security = security
        self._tokens = tokens
        self._principal = principal
        self._alive = [first]
        self._keeping = asyncio.get_running_loop().create_task(self._keep(), name="keep a delegation token")

    async def _keep(self) -> None:
        credentials = self.security.credentials
        assert isinstance(credentials, DelegatedCredentials)
        while True:
            await asyncio.sleep(self._alive[-1].life_s * _REPLACED_AT)
            token = await self._replace()
            credentials.current = token.credentials
            # The token before it ends by itself: connections that have logged in with it log in again in time.
            self._alive = [self._alive[-1], token]

    async def _replace(self) -> _Token:
        pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
        while True:
            try:
                return await self._tokens.make(self._principal)
            except (OSError, ApiError) as error:
                logger.warning("a delegation token could not be replaced", extra={"reason": type(error).__name__})
            await asyncio.sleep(pauses.next_s())

    async def end(self) -> None:
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        for token in self._alive:
            await self._tokens.expire(token.hmac)
