"""ShareAcknowledge: written by tools/write_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.message import ZERO_UUID, Message


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        ("leader_id", "int32", (0, 32767), None, None, None, 0),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0),
    )

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0),
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None),
        ("current_leader", LeaderIdAndEpoch, (0, 32767), None, None, None, None),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = current_leader


class ShareAcknowledgeTopicResponse(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID),
        ("partitions", [PartitionData], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        ("node_id", "int32", (0, 32767), None, None, None, 0),
        ("host", "string", (0, 32767), None, None, None, ""),
        ("port", "int32", (0, 32767), None, None, None, 0),
        ("rack", "string", (0, 32767), (0, 32767), None, None, None),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareAcknowledgeResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0),
        ("error_code", "int16", (0, 32767), None, None, None, 0),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None),
        ("acquisition_lock_timeout_ms", "int32", (2, 32767), None, None, None, 0),
        ("responses", [ShareAcknowledgeTopicResponse], (0, 32767), None, None, None, ()),
        ("node_endpoints", [NodeEndpoint], (0, 32767), None, None, None, ()),
    )
    API_KEY = 79
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is None else responses
        self.node_endpoints = [] if node_endpoints is None else node_endpoints


class AcknowledgementBatch(Message):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types")
    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, None, 0),
        ("last_offset", "int64", (0, 32767), None, None, None, 0),
        ("acknowledge_types", ["int8"], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] | None = None,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is None else acknowledge_types


class AcknowledgePartition(Message):
    __slots__ = ("partition_index", "acknowledgement_batches")
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0),
        ("acknowledgement_batches", [AcknowledgementBatch], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is None else acknowledgement_batches


class AcknowledgeTopic(Message):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID),
        ("partitions", [AcknowledgePartition], (0, 32767), None, None, None, ()),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AcknowledgePartition] | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ShareAcknowledgeRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")
    FIELDS = (
        ("group_id", "string", (0, 32767), (0, 32767), None, None, None),
        ("member_id", "string", (0, 32767), (0, 32767), None, None, ""),
        ("share_session_epoch", "int32", (0, 32767), None, None, None, 0),
        ("is_renew_ack", "bool", (2, 32767), None, None, None, False),
        ("topics", [AcknowledgeTopic], (0, 32767), None, None, None, ()),
    )
    API_KEY = 79
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = ShareAcknowledgeResponse

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is None else topics
