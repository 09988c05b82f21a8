"""Settings of single groups and what the broker publishes of its groups, over a real connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from penstock.client.connection import BlockingConnection
from penstock.log.storage.files import Files
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.server.broker_server import BrokerServer
from penstock.server.monitoring.exposition import Exposition
from tests.clients.raw.transactional import PASSING, find_coordinator
from tests.clients.raw.wire import Topic, Wire, create_topic, until_settled
from tests.integration.served import served

BROKER, GROUP = 4, 32
PREFIX = "kafka_server_group_coordinator_metrics_"


def join(wire: Wire, topic: Topic, member: str, group: str = "g") -> Any:
    find_coordinator(wire, group, 0)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic.name],
        topic_partitions=[],
    )
    return until_settled(lambda: wire(request, 1), *PASSING)


def alter(wire: Wire, kind: int, name: str, key: str, value: str) -> None:
    setting = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[setting])
    (answer,) = wire(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0, answer.error_message


def scrape(server: BrokerServer) -> dict[tuple[str, str], float]:
    """Value by name and (only) label."""
    text = asyncio.run(Exposition(server.broker.metrics, "1.2.3", server.broker.slices).render_metrics()).decode()
    return {
        (sample.name.removeprefix(PREFIX), next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(PREFIX)
    }


def test_group_keeps_its_settings_when_the_broker_restarts(tmp_path: Path) -> None:
    data = [tmp_path / "data"]
    with served(data, Files()) as server, BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection:
        wire = Wire(connection)
        topic = create_topic(wire)
        alter(wire, GROUP, "g", "consumer.heartbeat.interval.ms", "6000")
    with served(data, Files()) as server, BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection:
        wire = Wire(connection)
        assert join(wire, topic, "a").heartbeat_interval_ms == 6000
        assert join(wire, topic, "a", "other").heartbeat_interval_ms == 5000


def test_groups_are_assigned_at_once_when_the_interval_is_changed_to_that(tmp_path: Path) -> None:
    config = {"group.consumer.assignment.interval.ms": "15000"}
    with (
        served([tmp_path / "data"], Files(), config) as server,
        BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection,
    ):
        wire = Wire(connection)
        topic = create_topic(wire, 2)
        first = join(wire, topic, "a").member_epoch
        assert join(wire, topic, "b").member_epoch == first  # no target of its own yet
        assert scrape(server)["consumer_group_count", "assigning"] == 1
        alter(wire, BROKER, "", "group.consumer.assignment.interval.ms", "0")
        assert join(wire, topic, "c").member_epoch > first
        assert scrape(server)["consumer_group_count", "reconciling"] == 1


def test_groups_and_rebalances_are_published_when_both_protocols_are_spoken(tmp_path: Path) -> None:
    with (
        served([tmp_path / "data"], Files()) as server,
        BlockingConnection("127.0.0.1", server.port, client_id="raw") as connection,
    ):
        wire = Wire(connection)
        topic = create_topic(wire)
        join(wire, topic, "a")
        shown = scrape(server)
        assert (shown["group_count", "classic"], shown["group_count", "consumer"]) == (0, 1)
        states = ("empty", "assigning", "reconciling", "stable", "dead")
        assert [shown["consumer_group_count", state] for state in states] == [0, 0, 0, 1, 0]
        assert shown["consumer_group_rebalance_total", ""] == 1
        assert shown["group_completed_rebalance_total", ""] == 1
