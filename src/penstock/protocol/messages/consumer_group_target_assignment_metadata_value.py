"""ConsumerGroupTargetAssignmentMetadataValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")
    FIELDS = (
        Field("assignment_epoch", "int32", (0, 32767), default=0),
        Field("assignment_timestamp", "int64", (0, 32767), tag=0, tagged=(0, 32767), default=0),
    )
    API_KEY = 6
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp
