"""ShareGroupMetadataValue: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, None, 0),
        ("metadata_hash", "int64", (0, 32767), None, None, None, 0),
    )
    API_KEY = 11
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
