"""ConsumerGroupCurrentMemberAssignmentValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions", "assignment_epochs")
    FIELDS = (
        Field("topic_id", "uuid", (0, 32767), default=ZERO_UUID),
        Field("partitions", ["int32"], (0, 32767), default=()),
        Field("assignment_epochs", ["int32"], (0, 32767), nullable=(0, 32767), tag=0, tagged=(0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
        assignment_epochs: list[int] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions
        self.assignment_epochs = assignment_epochs


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions", "partitions_pending_revocation")
    FIELDS = (
        Field("member_epoch", "int32", (0, 32767), default=0),
        Field("previous_member_epoch", "int32", (0, 32767), default=0),
        Field("state", "int8", (0, 32767), default=0),
        Field("assigned_partitions", [TopicPartitions], (0, 32767), default=()),
        Field("partitions_pending_revocation", [TopicPartitions], (0, 32767), default=()),
    )
    API_KEY = 8
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
        partitions_pending_revocation: list[TopicPartitions] | None = None,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is None else assigned_partitions
        self.partitions_pending_revocation = [] if partitions_pending_revocation is None else partitions_pending_revocation
