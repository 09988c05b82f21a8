"""OffsetCommitValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class OffsetCommitValue(Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")
    FIELDS = (
        Field("offset", "int64", (0, 32767), default=0),
        Field("leader_epoch", "int32", (3, 32767), default=-1),
        Field("metadata", "string", (0, 32767), default=""),
        Field("commit_timestamp", "int64", (0, 32767), default=0),
        Field("expire_timestamp", "int64", (1, 1), default=-1),
        Field("topic_id", "uuid", (4, 32767), tag=0, tagged=(4, 32767), default=ZERO_UUID),
    )
    API_KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id
