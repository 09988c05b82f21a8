"""DefaultPrincipalData: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated")
    FIELDS = (
        Field("type", "string", (0, 32767), default=""),
        Field("name", "string", (0, 32767), default=""),
        Field("token_authenticated", "bool", (0, 32767), default=False),
    )
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
