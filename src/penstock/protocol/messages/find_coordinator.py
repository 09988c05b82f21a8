"""FindCoordinator: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class Coordinator(Message):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    FIELDS = (
        Field("key", "string", (4, 32767), default=""),
        Field("node_id", "int32", (4, 32767), default=0),
        Field("host", "string", (4, 32767), default=""),
        Field("port", "int32", (4, 32767), default=0),
        Field("error_code", "int16", (4, 32767), default=0),
        Field("error_message", "string", (4, 32767), nullable=(4, 32767), default=""),
    )

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    FIELDS = (
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("error_code", "int16", (0, 3), default=0),
        Field("error_message", "string", (1, 3), nullable=(1, 3), default=""),
        Field("node_id", "int32", (0, 3), default=0),
        Field("host", "string", (0, 3), default=""),
        Field("port", "int32", (0, 3), default=0),
        Field("coordinators", [Coordinator], (4, 32767), default=()),
    )
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is None else coordinators


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys")
    FIELDS = (
        Field("key", "string", (0, 3), default=""),
        Field("key_type", "int8", (1, 32767), default=0),
        Field("coordinator_keys", ["string"], (4, 32767), default=()),
    )
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3
    RESPONSE = FindCoordinatorResponse

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] | None = None,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is None else coordinator_keys
