"""ConsumerProtocolSubscription: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", (1, 32767), default=""),
        Field("partitions", ["int32"], (1, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    FIELDS = (
        Field("topics", ["string"], (0, 32767), default=()),
        Field("user_data", "bytes", (0, 32767), nullable=(0, 32767)),
        Field("owned_partitions", [TopicPartition], (1, 32767), default=()),
        Field("generation_id", "int32", (2, 32767), default=-1),
        Field("rack_id", "string", (3, 32767), nullable=(3, 32767)),
    )
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        topics: list[str] | None = None,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] | None = None,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is None else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
