"""DescribeCluster: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DescribeClusterBroker(Message):
    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")
    FIELDS = (
        Field("broker_id", "int32", (0, 32767), default=0),
        Field("host", "string", (0, 32767), default=""),
        Field("port", "int32", (0, 32767), default=0),
        Field("rack", "string", (0, 32767), nullable=(0, 32767)),
        Field("is_fenced", "bool", (2, 32767), default=False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id", "brokers", "cluster_authorized_operations")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767)),
        Field("endpoint_type", "int8", (1, 32767), default=1),
        Field("cluster_id", "string", (0, 32767), default=""),
        Field("controller_id", "int32", (0, 32767), default=-1),
        Field("brokers", [DescribeClusterBroker], (0, 32767), default=()),
        Field("cluster_authorized_operations", "int32", (0, 32767), default=-2147483648),
    )
    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] | None = None,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is None else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


class DescribeClusterRequest(Message):
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    FIELDS = (
        Field("include_cluster_authorized_operations", "bool", (0, 32767), default=False),
        Field("endpoint_type", "int8", (1, 32767), default=1),
        Field("include_fenced_brokers", "bool", (2, 32767), default=False),
    )
    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeClusterResponse

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers
