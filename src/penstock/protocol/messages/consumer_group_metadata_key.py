"""ConsumerGroupMetadataKey: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ConsumerGroupMetadataKey(Message):
    __slots__ = ("group_id",)
    FIELDS = (
        Field("group_id", "string", (0, 0), default=""),
    )
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id
