"""ShareGroupMemberMetadataValue: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupMemberMetadataValue(Message):
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names")
    FIELDS = (
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, ""),
        ("client_id", "string", (0, 32767), None, None, None, ""),
        ("client_host", "string", (0, 32767), None, None, None, ""),
        ("subscribed_topic_names", ["string"], (0, 32767), None, None, None, ()),
    )
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is None else subscribed_topic_names
