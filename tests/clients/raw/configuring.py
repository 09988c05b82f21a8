"""The words of the tests of configuration: what is described and how it is changed."""

from __future__ import annotations

from typing import Any

from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.clients.raw.wire import Topic, Wire

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# Where a value comes from, as DescribeConfigs says it.
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC, DEFAULT = 1, 2, 3, 4, 5
LOGGER_CONFIG, GROUP_CONFIG = 6, 8
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT, INTERVAL = "consumer.assignment.interval.ms", "heartbeat.interval.ms"
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)


def describe(wire: Wire, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: bool) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return wire(DescribeConfigsRequest(resources=[resource], **more), version).results[0]


def config(wire: Wire, kind: int, name: str, key: str, **more: bool) -> Any:
    (row,) = describe(wire, kind, name, [key], **more).configs
    return row


def value_of(wire: Wire, topic: Topic, key: str) -> tuple[str, int]:
    row = config(wire, TOPIC, topic.name, key)
    return row.value, row.config_source


def change(
    wire: Wire, kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    rows = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    return wire(request).responses[0]


def replace(wire: Wire, kind: int, name: str, configs: dict[str, str | None], version: int = 2) -> Any:
    rows = [alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    return wire(alter_configs.AlterConfigsRequest(resources=[resource]), version).responses[0]
