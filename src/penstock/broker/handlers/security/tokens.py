"""Delegation tokens: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken.

A user who has logged in gets a name and a secret that others can log in with, as that user, for a while. No tokens are
given on a listener where nobody is known, nor to a user who has logged in with a token
(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED). Without `delegation.token.secret.key` there are none
(DELEGATION_TOKEN_AUTH_DISABLED). The broker that the client asks checks who asks; the controller makes the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import ANONYMOUS, Principal, RequestContext
from penstock.broker.slices import Work, collect
from penstock.cluster.decisions.security.tokens import (
    TokenResult,
    TokenSettings,
    decide_add_token,
    decide_expire_token,
    decide_renew_token,
    new_token,
)
from penstock.core.types import format_topic_id, new_topic_id
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from penstock.security.tokens.tokens import DelegationToken, decode_token, token_hmac

_USER = "User"


def token_settings(broker: Broker) -> TokenSettings | None:
    """None where there are no tokens."""
    config = broker.config
    secret = config.get("delegation.token.secret.key")
    max_lifetime_ms, renewal_ms = (
        config.get(f"delegation.token.{name}") for name in ("max.lifetime.ms", "expiry.time.ms")
    )
    assert isinstance(max_lifetime_ms, int)
    assert isinstance(renewal_ms, int)
    return None if secret is None else TokenSettings(str(secret).encode(), max_lifetime_ms, renewal_ms)


def _may_ask(broker: Broker, context: RequestContext) -> bool:
    """A request that another broker has passed on was checked there."""
    session = context.session
    if session.is_forwarded:
        return True
    protocols = {endpoint.name: endpoint.security_protocol for endpoint in broker.config.endpoints}
    protocol = protocols.get(session.listener, "PLAINTEXT")
    if protocol == "PLAINTEXT" or (protocol == "SSL" and session.principal == ANONYMOUS):
        return False
    login = None if session.login is None else session.login.login
    return login is None or login.token_id is None


async def _pass_on(broker: Broker, context: RequestContext, request: Message) -> Any:
    """What the controller says; None where the change is to be made here."""
    forwarding = broker.forwarding
    if forwarding is None or not forwarding.is_needed(context):
        return None
    return await forwarding.forward(context, request)


# ------------------------------------------------------------------------------------------------- creating


async def create_delegation_token(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Gives a token to whoever asks, or to another owner (CREATE_TOKENS on that user). Only users can renew a token.

    Version 2 is flexible; version 3 adds the owner.
    """
    requester = context.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or _USER, request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    response.error_code = _check_creation(broker, context, request, owner)
    if response.error_code:
        return response
    forwarded: CreateDelegationTokenResponse | None = await _pass_on(broker, context, request)
    if forwarded is not None:
        return forwarded
    settings = token_settings(broker)
    if settings is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return response
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    token_id = format_topic_id(new_topic_id(broker.chance.randbytes))
    token = new_token(
        token_id, str(owner), str(requester), renewers, request.max_lifetime_ms, settings, broker.clock.now_ms()
    )
    await broker.metadata.security.apply(lambda security: decide_add_token(security, token))
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_ms, token.max_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.token_id, response.hmac = token.token_id, token_hmac(settings.secret, token.token_id)
    return response


def _check_creation(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest, owner: Principal
) -> ErrorCode:
    if not _may_ask(broker, context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != context.principal and not broker.authorizer.is_allowed(
        context, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if owner.type != _USER or any(renewer.principal_type != _USER for renewer in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


# ------------------------------------------------------------------------------------------------- renewing, ending


async def renew_delegation_token(
    broker: Broker, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Lets a token live longer, within its longest life. Owner and renewers may ask. Version 2 is flexible."""
    response = RenewDelegationTokenResponse()
    forwarded = await _change(broker, context, request, response, decide_renew_token, request.renew_period_ms)
    return response if forwarded is None else forwarded


async def expire_delegation_token(
    broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Ends a token sooner; a negative time ends it at once. Owner and renewers may ask. Version 2 is flexible."""
    response = ExpireDelegationTokenResponse()
    forwarded = await _change(broker, context, request, response, decide_expire_token, request.expiry_time_period_ms)
    return response if forwarded is None else forwarded


async def _change(
    broker: Broker,
    context: RequestContext,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse,
    decide: Callable[..., Any],
    period_ms: int,
) -> Any:
    """Fills `response`, or returns the controller's."""
    if not _may_ask(broker, context):
        response.error_code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return None
    forwarded = await _pass_on(broker, context, request)
    if forwarded is not None:
        return forwarded
    settings = token_settings(broker)
    if settings is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return None
    wanted, principal, now_ms = bytes(request.hmac), str(context.principal), broker.clock.now_ms()
    results: tuple[TokenResult, ...] = await broker.metadata.security.apply(
        lambda security: decide(security, wanted, principal, period_ms, settings, now_ms)
    )
    response.error_code, response.expiry_timestamp_ms = results[0]
    return None


# ------------------------------------------------------------------------------------------------- looking


def describe_delegation_token(
    broker: Broker, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Work[DescribeDelegationTokenResponse]:
    """The tokens of the named owners, or all tokens where the list is null, as far as whoever asks may see them: one's
    own, those that one may renew, and with DESCRIBE on the token or DESCRIBE_TOKENS on its owner.

    Version 2 is flexible; version 3 adds who asked for the token.
    """
    if not _may_ask(broker, context):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    settings = token_settings(broker)
    if settings is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = (
        None if request.owners is None else [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    )
    tokens = (decode_token(name, values) for name, values in broker.metadata.image.security.tokens.items())
    seen = yield from collect(
        _describe(token, settings.secret) if _may_see(broker, context, token, owners) else None for token in tokens
    )
    return DescribeDelegationTokenResponse(tokens=[each for each in seen if each is not None])


def _may_see(broker: Broker, context: RequestContext, token: DelegationToken, owners: list[str] | None) -> bool:
    if owners is not None and not any(token.is_for(owner) for owner in owners):
        return False
    if token.is_for(str(context.principal)):
        return True
    authorizer = broker.authorizer
    return authorizer.would_allow(
        context, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id
    ) or authorizer.would_allow(context, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)


def _describe(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
