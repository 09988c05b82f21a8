"""UnregisterBroker: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class UnregisterBrokerResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
    )
    API_KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


class UnregisterBrokerRequest(Message):
    __slots__ = ("broker_id",)
    FIELDS = (
        Field("broker_id", "int32", (0, 32767), default=0),
    )
    API_KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = UnregisterBrokerResponse

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
