"""DescribeConfigs: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class DescribeConfigsSynonym(Message):
    __slots__ = ("name", "value", "source")
    FIELDS = (
        Field("name", "string", (1, 32767), default=""),
        Field("value", "string", (1, 32767), nullable=(0, 32767), default=""),
        Field("source", "int8", (1, 32767), default=0),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Message):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("value", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("read_only", "bool", (0, 32767), default=False),
        Field("config_source", "int8", (1, 32767), default=-1),
        Field("is_sensitive", "bool", (0, 32767), default=False),
        Field("synonyms", [DescribeConfigsSynonym], (1, 32767), default=()),
        Field("config_type", "int8", (3, 32767), default=0),
        Field("documentation", "string", (3, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] | None = None,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is None else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    FIELDS = (
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
        Field("configs", [DescribeConfigsResourceResult], (0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is None else configs


class DescribeConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("results", [DescribeConfigsResult], (0, 32767), default=()),
    )
    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results


class DescribeConfigsResource(Message):
    __slots__ = ("resource_type", "resource_name", "configuration_keys")
    FIELDS = (
        Field("resource_type", "int8", (0, 32767), default=0),
        Field("resource_name", "string", (0, 32767), default=""),
        Field("configuration_keys", ["string"], (0, 32767), nullable=(0, 32767), default=()),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(Message):
    __slots__ = ("resources", "include_synonyms", "include_documentation")
    FIELDS = (
        Field("resources", [DescribeConfigsResource], (0, 32767), default=()),
        Field("include_synonyms", "bool", (1, 32767), default=False),
        Field("include_documentation", "bool", (3, 32767), default=False),
    )
    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4
    RESPONSE = DescribeConfigsResponse

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is None else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation
