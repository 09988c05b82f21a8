"""WriteTxnMarkers: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class WritableTxnMarkerPartitionResult(Message):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(Message):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partitions", [WritableTxnMarkerPartitionResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] | None = None,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class WritableTxnMarkerResult(Message):
    __slots__ = ("producer_id", "topics")
    FIELDS = (
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("topics", [WritableTxnMarkerTopicResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is None else topics


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers",)
    FIELDS = (
        Field("markers", [WritableTxnMarkerResult], (0, 32767), default=()),
    )
    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] | None = None,
    ) -> None:
        self.markers = [] if markers is None else markers


class WritableTxnMarkerTopic(Message):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("partition_indexes", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class WritableTxnMarker(Message):
    __slots__ = ("producer_id", "producer_epoch", "transaction_result", "topics", "coordinator_epoch", "transaction_version")
    FIELDS = (
        Field("producer_id", "int64", (0, 32767), default=0),
        Field("producer_epoch", "int16", (0, 32767), default=0),
        Field("transaction_result", "bool", (0, 32767), default=False),
        Field("topics", [WritableTxnMarkerTopic], (0, 32767), default=()),
        Field("coordinator_epoch", "int32", (0, 32767), default=0),
        Field("transaction_version", "int8", (2, 32767), default=0),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] | None = None,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is None else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers",)
    FIELDS = (
        Field("markers", [WritableTxnMarker], (0, 32767), default=()),
    )
    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1
    RESPONSE = WriteTxnMarkersResponse

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] | None = None,
    ) -> None:
        self.markers = [] if markers is None else markers
