"""ElectLeaders: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class PartitionResult(Message):
    __slots__ = ("partition_id", "error_code", "error_message")
    FIELDS = (
        Field("partition_id", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Message):
    __slots__ = ("topic", "partition_result")
    FIELDS = (
        Field("topic", "string", (0, 32767), default=""),
        Field("partition_result", [PartitionResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] | None = None,
    ) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is None else partition_result


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (1, 32767), default=0),
        Field("replica_election_results", [ReplicaElectionResult], (0, 32767), default=()),
    )
    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is None else replica_election_results


class TopicPartitions(Message):
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


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    FIELDS = (
        Field("election_type", "int8", (1, 32767), default=0),
        Field("topic_partitions", [TopicPartitions], (0, 32767), nullable=(0, 32767), default=()),
        Field("timeout_ms", "int32", (0, 32767), default=60000),
    )
    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = ElectLeadersResponse

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = None,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms
