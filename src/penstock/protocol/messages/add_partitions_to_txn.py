"""AddPartitionsToTxn: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class AddPartitionsToTxnPartitionResult(Message):
    __slots__ = ("partition_index", "partition_error_code")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("partition_error_code", "int16", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    __slots__ = ("name", "results_by_partition")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("results_by_partition", [AddPartitionsToTxnPartitionResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] | None = None,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is None else results_by_partition


class AddPartitionsToTxnResult(Message):
    __slots__ = ("transactional_id", "topic_results")
    FIELDS = (
        Field("transactional_id", "string", (4, 32767), default=""),
        Field("topic_results", [AddPartitionsToTxnTopicResult], (4, 32767), default=()),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is None else topic_results


class AddPartitionsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (4, 32767), default=0),
        Field("results_by_transaction", [AddPartitionsToTxnResult], (4, 32767), default=()),
        Field("results_by_topic_v3_and_below", [AddPartitionsToTxnTopicResult], (0, 3), default=()),
    )
    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] | None = None,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is None else results_by_transaction
        self.results_by_topic_v3_and_below = [] if results_by_topic_v3_and_below is None else results_by_topic_v3_and_below


class AddPartitionsToTxnTopic(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AddPartitionsToTxnTransaction(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    FIELDS = (
        Field("transactional_id", "string", (4, 32767), default=""),
        Field("producer_id", "int64", (4, 32767), default=0),
        Field("producer_epoch", "int16", (4, 32767), default=0),
        Field("verify_only", "bool", (4, 32767), default=False),
        Field("topics", [AddPartitionsToTxnTopic], (4, 32767), default=()),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is None else topics


class AddPartitionsToTxnRequest(Message):
    __slots__ = ("transactions", "v3_and_below_transactional_id", "v3_and_below_producer_id", "v3_and_below_producer_epoch", "v3_and_below_topics")
    FIELDS = (
        Field("transactions", [AddPartitionsToTxnTransaction], (4, 32767), default=()),
        Field("v3_and_below_transactional_id", "string", (0, 3), default=""),
        Field("v3_and_below_producer_id", "int64", (0, 3), default=0),
        Field("v3_and_below_producer_epoch", "int16", (0, 3), default=0),
        Field("v3_and_below_topics", [AddPartitionsToTxnTopic], (0, 3), default=()),
    )
    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = AddPartitionsToTxnResponse

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] | None = None,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactions = [] if transactions is None else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is None else v3_and_below_topics
