"""GroupMetadataKey: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class GroupMetadataKey(Message):
    __slots__ = ("group",)
    FIELDS = (
        Field("group", "string", (0, 0), default=""),
    )
    API_KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        group: str = "",
    ) -> None:
        self.group = group
