"""ApiVersions: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class ApiVersion(Message):
    __slots__ = ("api_key", "min_version", "max_version")
    FIELDS = (
        Field("api_key", "int16", (0, 32767), default=0),
        Field("min_version", "int16", (0, 32767), default=0),
        Field("max_version", "int16", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    __slots__ = ("name", "min_version", "max_version")
    FIELDS = (
        Field("name", "string", (3, 32767), default=""),
        Field("min_version", "int16", (3, 32767), default=0),
        Field("max_version", "int16", (3, 32767), default=0),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    __slots__ = ("name", "max_version_level", "min_version_level")
    FIELDS = (
        Field("name", "string", (3, 32767), default=""),
        Field("max_version_level", "int16", (3, 32767), default=0),
        Field("min_version_level", "int16", (3, 32767), default=0),
    )

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(Message):
    __slots__ = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("api_keys", [ApiVersion], (0, 32767), default=()),
        Field("throttle_time_ms", "int32", (1, 32767), default=0),
        Field("supported_features", [SupportedFeatureKey], (3, 32767), tag=0, tagged=(3, 32767), default=()),
        Field("finalized_features_epoch", "int64", (3, 32767), tag=1, tagged=(3, 32767), default=-1),
        Field("finalized_features", [FinalizedFeatureKey], (3, 32767), tag=2, tagged=(3, 32767), default=()),
        Field("zk_migration_ready", "bool", (3, 32767), tag=3, tagged=(3, 32767), default=False),
    )
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] | None = None,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] | None = None,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] | None = None,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is None else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is None else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is None else finalized_features
        self.zk_migration_ready = zk_migration_ready


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version")
    FIELDS = (
        Field("client_software_name", "string", (3, 32767), default=""),
        Field("client_software_version", "string", (3, 32767), default=""),
    )
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3
    RESPONSE = ApiVersionsResponse

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
