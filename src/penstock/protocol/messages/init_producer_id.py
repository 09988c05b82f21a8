"""InitProducerId: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class InitProducerIdResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("producer_id", "int64", (0, 32767), default=-1),
        Field("producer_epoch", "int16", (0, 32767), default=0),
        Field("ongoing_txn_producer_id", "int64", (6, 32767), default=-1),
        Field("ongoing_txn_producer_epoch", "int16", (6, 32767), default=-1),
    )
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


class InitProducerIdRequest(Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable2_pc", "keep_prepared_txn")
    FIELDS = (
        Field("transactional_id", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("transaction_timeout_ms", "int32", (0, 32767), default=0),
        Field("producer_id", "int64", (3, 32767), default=-1),
        Field("producer_epoch", "int16", (3, 32767), default=-1),
        Field("enable2_pc", "bool", (6, 32767), default=False),
        Field("keep_prepared_txn", "bool", (6, 32767), default=False),
    )
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2
    RESPONSE = InitProducerIdResponse

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn
