"""OffsetCommitKey: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class OffsetCommitKey(Message):
    __slots__ = ("group", "topic", "partition")
    FIELDS = (
        Field("group", "string", (0, 0), default=""),
        Field("topic", "string", (0, 0), default=""),
        Field("partition", "int32", (0, 0), default=0),
    )
    API_KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
