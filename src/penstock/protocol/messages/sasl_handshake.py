"""SaslHandshake: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("mechanisms", ["string"], (0, 32767), default=()),
    )
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] | None = None,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is None else mechanisms


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)
    FIELDS = (
        Field("mechanism", "string", (0, 32767), default=""),
    )
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 32767
    RESPONSE = SaslHandshakeResponse

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism
