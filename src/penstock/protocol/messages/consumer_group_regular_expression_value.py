"""ConsumerGroupRegularExpressionValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ConsumerGroupRegularExpressionValue(Message):
    __slots__ = ("topics", "version", "timestamp")
    FIELDS = (
        Field("topics", ["string"], (0, 32767), default=()),
        Field("version", "int64", (0, 32767), default=0),
        Field("timestamp", "int64", (0, 32767), default=0),
    )
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[str] | None = None,
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.version = version
        self.timestamp = timestamp
