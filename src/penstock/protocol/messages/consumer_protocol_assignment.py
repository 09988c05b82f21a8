"""ConsumerProtocolAssignment: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")
    FIELDS = (
        Field("assigned_partitions", [TopicPartition], (0, 32767), default=()),
        Field("user_data", "bytes", (0, 32767), nullable=(0, 32767)),
    )
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] | None = None,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is None else assigned_partitions
        self.user_data = user_data
