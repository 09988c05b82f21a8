"""ConsumerGroupMemberMetadataValue: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ClassicProtocol(Message):
    __slots__ = ("name", "metadata")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("metadata", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class ClassicMemberMetadata(Message):
    __slots__ = ("session_timeout_ms", "supported_protocols")
    FIELDS = (
        Field("session_timeout_ms", "int32", (0, 32767), default=0),
        Field("supported_protocols", [ClassicProtocol], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        session_timeout_ms: int = 0,
        supported_protocols: list[ClassicProtocol] | None = None,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = [] if supported_protocols is None else supported_protocols


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex", "rebalance_timeout_ms", "server_assignor", "classic_member_metadata")
    FIELDS = (
        Field("instance_id", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("rack_id", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("client_id", "string", (0, 32767), default=""),
        Field("client_host", "string", (0, 32767), default=""),
        Field("subscribed_topic_names", ["string"], (0, 32767), default=()),
        Field("subscribed_topic_regex", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("rebalance_timeout_ms", "int32", (0, 32767), default=-1),
        Field("server_assignor", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("classic_member_metadata", ClassicMemberMetadata, (0, 32767), nullable=(0, 32767), tag=0, tagged=(0, 32767)),
    )
    API_KEY = 5
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is None else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = classic_member_metadata
