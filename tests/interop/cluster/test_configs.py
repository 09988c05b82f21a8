"""kafka-configs against three brokers: what is set at one of them holds for whom it is meant for."""

from __future__ import annotations

import pytest

import penstock
from tests.interop.cluster.cluster_view import bystander, place
from tests.interop.conftest import KafkaTool

RETENTION = "7200000"


def shown(tool: KafkaTool, *entity: str) -> str:
    return tool("kafka-configs", "--describe", *entity).stdout


def alter(tool: KafkaTool, change: str, *entity: str) -> None:
    """Sets, or takes away where there are no values."""
    option = "--add-config" if "=" in change else "--delete-config"
    tool("kafka-configs", "--alter", *entity, option, change)


def test_topic_has_its_setting_when_a_broker_that_is_not_the_controller_was_asked(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, [[1, 2, 3]])
    entity = ("--entity-type", "topics", "--entity-name", topic)
    alter(tool, "retention.ms=3600000,min.insync.replicas=1", *entity)
    described = shown(tool, *entity)
    assert "  retention.ms=3600000 sensitive=false" in described
    assert "  min.insync.replicas=1 sensitive=false" in described
    alter(tool, "retention.ms", *entity)
    assert "retention.ms" not in shown(tool, *entity)


def test_broker_alone_has_a_setting_when_it_was_set_for_it(tool: KafkaTool, cluster: penstock.Cluster) -> None:
    chosen = bystander(cluster).node_id
    entity = ("--entity-type", "brokers", "--entity-name", str(chosen))
    alter(tool, f"log.retention.ms={RETENTION}", *entity)
    described = shown(tool, "--entity-type", "brokers").split("Dynamic configs for broker ")
    assert [part[0] for part in described if f"log.retention.ms={RETENTION}" in part] == [str(chosen)]
    alter(tool, "log.retention.ms", *entity)
    assert "log.retention.ms" not in shown(tool, *entity)


def test_all_brokers_have_a_setting_when_it_was_set_as_the_default(tool: KafkaTool, cluster: penstock.Cluster) -> None:
    default = ("--entity-type", "brokers", "--entity-default")
    alter(tool, f"log.retention.ms={RETENTION}", *default)
    assert f"log.retention.ms={RETENTION} sensitive=false" in shown(tool, *default)
    for broker in cluster.brokers:
        entity = ("--entity-type", "brokers", "--entity-name", str(broker.node_id), "--all")
        described = shown(tool, *entity)
        assert f"  log.retention.ms={RETENTION} sensitive=false" in described
        assert f"DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms={RETENTION}" in described
    alter(tool, "log.retention.ms", *default)
    assert "log.retention.ms" not in shown(tool, *default)


THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


@pytest.mark.parametrize("is_default", [True, False])
def test_throttles_are_shown_and_go_when_they_were_set_for_one_broker_or_for_all(
    tool: KafkaTool, cluster: penstock.Cluster, is_default: bool
) -> None:
    chosen = ("--entity-default",) if is_default else ("--entity-name", str(bystander(cluster).node_id))
    entity = ("--entity-type", "brokers", *chosen)
    alter(tool, ",".join(f"{name}=1000000" for name in THROTTLES), *entity)
    described = shown(tool, *entity)
    for name in THROTTLES:
        assert f"  {name}=1000000 sensitive=false" in described
    alter(tool, ",".join(THROTTLES), *entity)
    assert not any(name in shown(tool, *entity) for name in THROTTLES)


@pytest.mark.parametrize("change", ["log.retention.ms=soon", "broker.id=9", "leader.replication.throttled.rate=-1"])
def test_setting_is_refused_when_it_is_wrong_or_fixed(tool: KafkaTool, cluster: penstock.Cluster, change: str) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", str(bystander(cluster).node_id))
    refused = tool("kafka-configs", "--alter", *entity, "--add-config", change, must_succeed=False)
    assert "InvalidRequestException" in refused.output
    assert refused.return_code == 1


def test_throttles_are_shown_and_removed_when_they_were_set_by_hand(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, [[1, 2]])
    for kind, name, key, value in (
        ("topics", topic, "replication.throttled.replicas", "[0:1,0:2]"),
        ("brokers", "1", "replication.throttled.rate", "1000000"),
    ):
        entity = ("--entity-type", kind, "--entity-name", name)
        keys = (f"leader.{key}", f"follower.{key}")
        alter(tool, ",".join(f"{each}={value}" for each in keys), *entity)
        assert all(f"  {each}=" in shown(tool, *entity) for each in keys)
        alter(tool, ",".join(keys), *entity)
        assert "throttled" not in shown(tool, *entity)
    everything = ("--entity-type", "topics", "--entity-name", topic)
    alter(tool, "leader.replication.throttled.replicas=*", *everything)
    assert "leader.replication.throttled.replicas=*" in shown(tool, *everything)
    wrong = ("--add-config", "leader.replication.throttled.replicas=everybody")
    refused = tool("kafka-configs", "--alter", *everything, *wrong, must_succeed=False)
    assert refused.return_code == 1
