"""Envelope: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code")
    FIELDS = (
        Field("response_data", "bytes", (0, 32767), nullable=(0, 32767)),
        Field("error_code", "int16", (0, 32767), default=0),
    )
    API_KEY = 58
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address")
    FIELDS = (
        Field("request_data", "bytes", (0, 32767), default=b""),
        Field("request_principal", "bytes", (0, 32767), nullable=(0, 32767), default=b""),
        Field("client_host_address", "bytes", (0, 32767), default=b""),
    )
    API_KEY = 58
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = EnvelopeResponse

    def __init__(
        self,
        *,
        request_data: bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
