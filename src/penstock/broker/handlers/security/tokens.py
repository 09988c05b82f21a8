"""Delegation tokens: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken.

A user who has logged in gets a name and a secret with which other clients can log in as that user, for a while. A
listener without authentication gives no tokens, and neither does a login by a token
(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED). Without `delegation.token.secret.key` there are no tokens
(DELEGATION_TOKEN_AUTH_DISABLED). The broker that the client asks checks the client; the controller makes the change.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from penstock.broker.authorizer import Authorizer, Operation, ResourceType
from penstock.broker.session import ANONYMOUS, Principal, RequestContext
from penstock.broker.slices import Work, collect
from penstock.cluster.decisions.security.tokens import (
    Decided,
    TokenResult,
    TokenSettings,
    decide_add_token,
    decide_expire_token,
    decide_renew_token,
    new_token,
)
from penstock.cluster.metadata import Metadata
from penstock.cluster.security_image import SecurityImage
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
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
from penstock.security.tokens.by_hmac import TokensByHmac
from penstock.security.tokens.tokens import DelegationToken, decode_token, token_hmac

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.forwarding.forwarder import Forwarding

_USER = "User"


class TokenPort(Protocol):
    """The parts of the broker that the handlers of tokens use."""

    authorizer: Authorizer
    chance: Random
    clock: Clock
    config: BrokerConfig
    forwarding: Forwarding | None
    metadata: Metadata
    tokens_by_hmac: TokensByHmac


def token_settings(broker: TokenPort) -> TokenSettings | None:
    """None where tokens are disabled."""
    config = broker.config
    secret = config.get("delegation.token.secret.key")
    if secret is None:
        return None
    return TokenSettings(
        secret=str(secret).encode(),
        max_lifetime_ms=_number(config, "delegation.token.max.lifetime.ms"),
        renewal_ms=_number(config, "delegation.token.expiry.time.ms"),
        most=_number(config, "penstock.delegation.tokens.max"),
        most_of_owner=_number(config, "penstock.delegation.tokens.max.per.owner"),
    )


def _number(config: BrokerConfig, name: str) -> int:
    return int(str(config.get(name)))


def _may_ask(broker: TokenPort, context: RequestContext) -> bool:
    """Whether the client may ask for tokens. For a forwarded request the forwarding broker has checked that."""
    session = context.session
    if session.is_forwarded:
        return True
    protocols = {endpoint.name: endpoint.security_protocol for endpoint in broker.config.endpoints}
    protocol = protocols.get(session.listener, "PLAINTEXT")
    if protocol == "PLAINTEXT" or (protocol == "SSL" and session.principal == ANONYMOUS):
        return False
    login = None if session.login is None else session.login.login
    return login is None or login.token_id is None


async def _pass_on(broker: TokenPort, context: RequestContext, request: Message) -> Any:
    """The controller's answer; None where this broker has to make the change."""
    forwarding = broker.forwarding
    if forwarding is None or not forwarding.is_needed(context):
        return None
    return await forwarding.forward(context, request)


# ------------------------------------------------------------------------------------------------- creating


async def create_delegation_token(
    broker: TokenPort, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Gives a token to the client's user, or to another owner (CREATE_TOKENS on that user). Only users can renew a
    token. The answer is POLICY_VIOLATION where the owner or the cluster has the maximum number of tokens.

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
    now_ms = broker.clock.now_ms()
    token = new_token(token_id, str(owner), str(requester), renewers, request.max_lifetime_ms, settings, now_ms)
    results: tuple[TokenResult, ...] = await broker.metadata.security.apply(
        lambda security: decide_add_token(security, token, settings, now_ms)
    )
    response.error_code = results[0].code
    if response.error_code:
        return response
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_ms, token.max_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.token_id, response.hmac = token.token_id, token_hmac(settings.secret, token.token_id)
    return response


def _check_creation(
    broker: TokenPort, context: RequestContext, request: CreateDelegationTokenRequest, owner: Principal
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
    broker: TokenPort, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Extends the life of a token, within its maximum lifetime. Owner and renewers may ask. Version 2 is flexible."""
    response = RenewDelegationTokenResponse()
    forwarded = await _change(broker, context, request, response, decide_renew_token, request.renew_period_ms)
    return response if forwarded is None else forwarded


async def expire_delegation_token(
    broker: TokenPort, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Shortens the life of a token; a negative time ends the token at once. Owner and renewers may ask. Version 2 is
    flexible.
    """
    response = ExpireDelegationTokenResponse()
    forwarded = await _change(broker, context, request, response, decide_expire_token, request.expiry_time_period_ms)
    return response if forwarded is None else forwarded


async def _change(
    broker: TokenPort,
    context: RequestContext,
    request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest,
    response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse,
    decide: Callable[..., Decided],
    period_ms: int,
) -> Any:
    """Fills `response`, or returns the controller's response."""
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
    find = broker.tokens_by_hmac.find

    def decide_by_hmac(security: SecurityImage) -> Decided:
        token_id = find(security.tokens, settings.secret, wanted)
        return decide(security, token_id, principal, period_ms, settings, now_ms)

    results = await broker.metadata.security.apply(decide_by_hmac)
    response.error_code, response.expiry_timestamp_ms = results[0]
    return None


# ------------------------------------------------------------------------------------------------- looking


def describe_delegation_token(
    broker: TokenPort, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Work[DescribeDelegationTokenResponse]:
    """Lists the tokens of the named owners, or all tokens where the list is null, as far as the client may see them:
    its own tokens, the tokens that it may renew, and with DESCRIBE on a token or DESCRIBE_TOKENS on its owner that
    token.

    Version 2 is flexible; version 3 adds the requester of the token.
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


def _may_see(broker: TokenPort, context: RequestContext, token: DelegationToken, owners: list[str] | None) -> bool:
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
