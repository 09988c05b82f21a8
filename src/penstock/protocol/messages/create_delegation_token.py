"""CreateDelegationToken: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class CreateDelegationTokenResponse(Message):
    __slots__ = ("error_code", "principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id", "hmac", "throttle_time_ms")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("principal_type", "string", (0, 32767), default=""),
        Field("principal_name", "string", (0, 32767), default=""),
        Field("token_requester_principal_type", "string", (3, 32767), default=""),
        Field("token_requester_principal_name", "string", (3, 32767), default=""),
        Field("issue_timestamp_ms", "int64", (0, 32767), default=0),
        Field("expiry_timestamp_ms", "int64", (0, 32767), default=0),
        Field("max_timestamp_ms", "int64", (0, 32767), default=0),
        Field("token_id", "string", (0, 32767), default=""),
        Field("hmac", "bytes", (0, 32767), default=b""),
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
    )
    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms


class CreatableRenewers(Message):
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


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")
    FIELDS = (
        Field("owner_principal_type", "string", (3, 32767), nullable=(3, 32767), default=""),
        Field("owner_principal_name", "string", (3, 32767), nullable=(3, 32767), default=""),
        Field("renewers", [CreatableRenewers], (0, 32767), default=()),
        Field("max_lifetime_ms", "int64", (0, 32767), default=0),
    )
    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = CreateDelegationTokenResponse

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] | None = None,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is None else renewers
        self.max_lifetime_ms = max_lifetime_ms
