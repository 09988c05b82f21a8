"""ConsumerGroupMetadataValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")
    FIELDS = (
        Field("epoch", "int32", (0, 32767), default=0),
        Field("metadata_hash", "int64", (0, 32767), tag=0, tagged=(0, 32767), default=0),
    )
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
