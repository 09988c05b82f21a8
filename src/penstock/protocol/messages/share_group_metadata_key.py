"""ShareGroupMetadataKey: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupMetadataKey(Message):
    __slots__ = ("group_id",)
    FIELDS = (
        ("group_id", "string", (0, 0), None, None, None, ""),
    )
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id
