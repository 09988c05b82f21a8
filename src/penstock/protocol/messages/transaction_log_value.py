"""TransactionLogValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class PartitionsSchema(Message):
    __slots__ = ("topic", "partition_ids")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partition_ids", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_ids: list[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partition_ids = [] if partition_ids is None else partition_ids


class TransactionLogValue(Message):
    __slots__ = ("producer_id", "previous_producer_id", "next_producer_id", "producer_epoch", "next_producer_epoch", "transaction_timeout_ms", "transaction_status", "transaction_partitions", "transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms", "client_transaction_version")
    FIELDS = (
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("previous_producer_id", "int64", None, tag=0, tagged=(1, 32767), default=-1),
        Field("next_producer_id", "int64", None, tag=1, tagged=(1, 32767), default=-1),
        Field("producer_epoch", "int16", (0, 32767), default=0),
        Field("next_producer_epoch", "int16", None, tag=3, tagged=(1, 32767), default=-1),
        Field("transaction_timeout_ms", "int32", (0, 32767), default=0),
        Field("transaction_status", "int8", (0, 32767), default=0),
        Field("transaction_partitions", [PartitionsSchema], (0, 32767), nullable=(0, 32767), default=()),
        Field("transaction_last_update_timestamp_ms", "int64", (0, 32767), default=0),
        Field("transaction_start_timestamp_ms", "int64", (0, 32767), default=0),
        Field("client_transaction_version", "int16", None, tag=2, tagged=(1, 32767), default=0),
    )
    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[PartitionsSchema] | None = None,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version
