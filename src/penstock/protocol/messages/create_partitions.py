"""CreatePartitions: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class CreatePartitionsTopicResult(Message):
    __slots__ = ("name", "error_code", "error_message")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767)),
    )

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("results", [CreatePartitionsTopicResult], (0, 32767), default=()),
    )
    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results


class CreatePartitionsAssignment(Message):
    __slots__ = ("broker_ids",)
    FIELDS = (
        Field("broker_ids", ["int32"], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        broker_ids: list[int] | None = None,
    ) -> None:
        self.broker_ids = [] if broker_ids is None else broker_ids


class CreatePartitionsTopic(Message):
    __slots__ = ("name", "count", "assignments")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("count", "int32", (0, 32767), default=0),
        Field("assignments", [CreatePartitionsAssignment], (0, 32767), nullable=(0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = None,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    FIELDS = (
        Field("topics", [CreatePartitionsTopic], (0, 32767), default=()),
        Field("timeout_ms", "int32", (0, 32767), default=0),
        Field("validate_only", "bool", (0, 32767), default=False),
    )
    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = CreatePartitionsResponse

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] | None = None,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
