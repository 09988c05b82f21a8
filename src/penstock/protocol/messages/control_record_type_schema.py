"""ControlRecordTypeSchema: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ControlRecordTypeSchema(Message):
    __slots__ = ("type",)
    FIELDS = (
        ("type", "int16", (0, 32767), None, None, None, 0),
    )
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type = type
