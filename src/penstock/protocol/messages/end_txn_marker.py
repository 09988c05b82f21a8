"""EndTxnMarker: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)
    FIELDS = (
        ("coordinator_epoch", "int32", (0, 32767), None, None, None, 0),
    )
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
