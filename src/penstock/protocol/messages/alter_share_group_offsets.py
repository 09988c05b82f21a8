"""AlterShareGroupOffsets: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import ZERO_UUID, Message


class AlterShareGroupOffsetsResponsePartition(Message):
    __slots__ = ("partition_index", "error_code", "error_message")
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0),
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(Message):
    __slots__ = ("topic_name", "topic_id", "partitions")
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, ""),
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID),
        ("partitions", [AlterShareGroupOffsetsResponsePartition], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class AlterShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0),
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None),
        ("responses", [AlterShareGroupOffsetsResponseTopic], (0, 32767), None, None, None, ()),
    )
    API_KEY = 91
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is None else responses


class AlterShareGroupOffsetsRequestPartition(Message):
    __slots__ = ("partition_index", "start_offset")
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0),
        ("start_offset", "int64", (0, 32767), None, None, None, 0),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, ""),
        ("partitions", [AlterShareGroupOffsetsRequestPartition], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class AlterShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, ""),
        ("topics", [AlterShareGroupOffsetsRequestTopic], (0, 32767), None, None, None, ()),
    )
    API_KEY = 91
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = AlterShareGroupOffsetsResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequestTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics
