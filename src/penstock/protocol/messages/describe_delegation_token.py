"""DescribeDelegationToken: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DescribedDelegationTokenRenewer(Message):
    __slots__ = ("principal_type", "principal_name")
    FIELDS = (
        Field("principal_type", "string", (0, 32767), default=""),
        Field("principal_name", "string", (0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribedDelegationToken(Message):
    __slots__ = ("principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp", "expiry_timestamp", "max_timestamp", "token_id", "hmac", "renewers")
    FIELDS = (
        Field("principal_type", "string", (0, 32767), default=""),
        Field("principal_name", "string", (0, 32767), default=""),
        Field("token_requester_principal_type", "string", (3, 32767), default=""),
        Field("token_requester_principal_name", "string", (3, 32767), default=""),
        Field("issue_timestamp", "int64", (0, 32767), default=0),
        Field("expiry_timestamp", "int64", (0, 32767), default=0),
        Field("max_timestamp", "int64", (0, 32767), default=0),
        Field("token_id", "string", (0, 32767), default=""),
        Field("hmac", "bytes", (0, 32767), default=b""),
        Field("renewers", [DescribedDelegationTokenRenewer], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] | None = None,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is None else renewers


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("tokens", [DescribedDelegationToken], (0, 32767), default=()),
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
    )
    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] | None = None,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is None else tokens
        self.throttle_time_ms = throttle_time_ms


class DescribeDelegationTokenOwner(Message):
    __slots__ = ("principal_type", "principal_name")
    FIELDS = (
        Field("principal_type", "string", (0, 32767), default=""),
        Field("principal_name", "string", (0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners",)
    FIELDS = (
        Field("owners", [DescribeDelegationTokenOwner], (0, 32767), nullable=(0, 32767), default=()),
    )
    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DescribeDelegationTokenResponse

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | None = None,
    ) -> None:
        self.owners = owners
