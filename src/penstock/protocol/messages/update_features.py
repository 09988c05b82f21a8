"""UpdateFeatures: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class UpdatableFeatureResult(Message):
    __slots__ = ("feature", "error_code", "error_message")
    FIELDS = (
        Field("feature", "string", (0, 32767), default=""),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("results", [UpdatableFeatureResult], (0, 1), default=()),
    )
    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is None else results


class FeatureUpdateKey(Message):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")
    FIELDS = (
        Field("feature", "string", (0, 32767), default=""),
        Field("max_version_level", "int16", (0, 32767), default=0),
        Field("allow_downgrade", "bool", (0, 0), default=False),
        Field("upgrade_type", "int8", (1, 32767), default=1),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(Message):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only")
    FIELDS = (
        Field("timeout_ms", "int32", (0, 32767), default=60000),
        Field("feature_updates", [FeatureUpdateKey], (0, 32767), default=()),
        Field("validate_only", "bool", (1, 32767), default=False),
    )
    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = UpdateFeaturesResponse

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is None else feature_updates
        self.validate_only = validate_only
