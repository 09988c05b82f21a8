"""ExpireDelegationToken: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ExpireDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("expiry_timestamp_ms", "int64", (0, 32767), default=0),
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
    )
    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms


class ExpireDelegationTokenRequest(Message):
    __slots__ = ("hmac", "expiry_time_period_ms")
    FIELDS = (
        Field("hmac", "bytes", (0, 32767), default=b""),
        Field("expiry_time_period_ms", "int64", (0, 32767), default=0),
    )
    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = ExpireDelegationTokenResponse

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
