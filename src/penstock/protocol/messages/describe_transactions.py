"""DescribeTransactions: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class TopicData(Message):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class TransactionState(Message):
    __slots__ = ("error_code", "transactional_id", "transaction_state", "transaction_timeout_ms", "transaction_start_time_ms", "producer_id", "producer_epoch", "topics")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("transactional_id", "string", (0, 32767), default=""),
        Field("transaction_state", "string", (0, 32767), default=""),
        Field("transaction_timeout_ms", "int32", (0, 32767), default=0),
        Field("transaction_start_time_ms", "int64", (0, 32767), default=0),
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("producer_epoch", "int16", (0, 32767), default=0),
        Field("topics", [TopicData], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is None else topics


class DescribeTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "transaction_states")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("transaction_states", [TransactionState], (0, 32767), default=()),
    )
    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is None else transaction_states


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids",)
    FIELDS = (
        Field("transactional_ids", ["string"], (0, 32767), default=()),
    )
    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeTransactionsResponse

    def __init__(
        self,
        *,
        transactional_ids: list[str] | None = None,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is None else transactional_ids
