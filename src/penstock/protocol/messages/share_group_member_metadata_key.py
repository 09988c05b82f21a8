"""ShareGroupMemberMetadataKey: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupMemberMetadataKey(Message):
    __slots__ = ("group_id", "member_id")
    FIELDS = (
        ("group_id", "string", (0, 0), None, None, None, ""),
        ("member_id", "string", (0, 0), None, None, None, ""),
    )
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
