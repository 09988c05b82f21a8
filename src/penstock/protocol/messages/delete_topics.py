"""DeleteTopics: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import ZERO_UUID, Message


class DeletableTopicResult(Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message")
    FIELDS = (
        Field("name", "string", (0, 32767), nullable=(6, 32767), default=""),
        Field("topic_id", "uuid", (6, 32767), default=ZERO_UUID),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (5, 32767), nullable=(5, 32767)),
    )

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("responses", [DeletableTopicResult], (0, 32767), default=()),
    )
    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is None else responses


class DeleteTopicState(Message):
    __slots__ = ("name", "topic_id")
    FIELDS = (
        Field("name", "string", (6, 32767), nullable=(6, 32767)),
        Field("topic_id", "uuid", (6, 32767), default=ZERO_UUID),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Message):
    __slots__ = ("topics", "topic_names", "timeout_ms")
    FIELDS = (
        Field("topics", [DeleteTopicState], (6, 32767), default=()),
        Field("topic_names", ["string"], (0, 5), default=()),
        Field("timeout_ms", "int32", (0, 32767), default=0),
    )
    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4
    RESPONSE = DeleteTopicsResponse

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] | None = None,
        topic_names: list[str] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.topic_names = [] if topic_names is None else topic_names
        self.timeout_ms = timeout_ms
