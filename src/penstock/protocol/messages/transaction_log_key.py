"""TransactionLogKey: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class TransactionLogKey(Message):
    __slots__ = ("transactional_id",)
    FIELDS = (
        Field("transactional_id", "string", (0, 0), default=""),
    )
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32767

    def __init__(
        self,
        *,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
