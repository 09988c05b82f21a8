"""ShareGroupCurrentMemberAssignmentValue: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import ZERO_UUID, Message


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID),
        ("partitions", ["int32"], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ShareGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions")
    FIELDS = (
        ("member_epoch", "int32", (0, 32767), None, None, None, 0),
        ("previous_member_epoch", "int32", (0, 32767), None, None, None, 0),
        ("state", "int8", (0, 32767), None, None, None, 0),
        ("assigned_partitions", [TopicPartitions], (0, 32767), None, None, None, ()),
    )
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is None else assigned_partitions
