"""kafka-topics against three brokers, one of which goes away."""

from __future__ import annotations

import penstock
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.moves import start_moves
from penstock.core.types import TopicPartition
from tests.clients.confluent import consumer_of
from tests.interop.cluster.cluster_view import PATIENCE_S, bystander, describe, place
from tests.interop.conftest import KafkaTool


def test_replicas_are_on_all_brokers_when_a_topic_is_made_grown_and_deleted(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    tool("kafka-topics", "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3")
    partitions = describe(tool, topic)
    assert {each.leader for each in partitions.values()} == {1, 2, 3}
    assert all(each.in_sync == {1, 2, 3} and each.leader == each.replicas[0] for each in partitions.values())
    tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    assert [sorted(each.replicas) for each in describe(tool, topic).values()] == [[1, 2, 3]] * 5
    tool("kafka-topics", "--delete", "--topic", topic)
    assert topic not in tool("kafka-topics", "--list").lines
    cluster.wait_until_ready()
    assert not [path for each in cluster.brokers if each.log_path for path in each.log_path.parent.glob(f"*/{topic}-?")]


def test_replicas_are_where_they_were_asked_for_when_the_topic_names_them(tool: KafkaTool, topic: str) -> None:
    tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "3:1,2:3")
    described = {index: (each.leader, each.replicas) for index, each in describe(tool, topic).items()}
    assert described == {0: (3, [3, 1]), 1: (2, [2, 3])}
    grown = ("--partitions", "3", "--replica-assignment", "3:1,2:3,1:2")
    tool("kafka-topics", "--alter", "--topic", topic, *grown)
    assert describe(tool, topic)[2].replicas == [1, 2]
    tool("kafka-topics", "--delete", "--topic", topic)


def test_topic_is_refused_when_it_wants_more_replicas_than_there_are_brokers(tool: KafkaTool, topic: str) -> None:
    arguments = ("--create", "--topic", topic, "--replication-factor", "4")
    refused = tool("kafka-topics", *arguments, must_succeed=False)
    assert "InvalidReplicationFactorException" in refused.output
    assert refused.return_code == 1


def test_filters_find_what_a_missing_broker_leaves_when_it_is_killed(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    victim = cluster.controller_id()
    other, third = (broker.node_id for broker in cluster.brokers if broker.node_id != victim)
    names = {1: f"{topic}-1", 2: f"{topic}-2", 3: f"{topic}-3"}  # by how many replicas they have
    for count, name in names.items():
        place(cluster, name, [[victim, other, third][:count]], {"min.insync.replicas": str(min(2, count))})
    cluster.kill(victim)
    cluster.wait_until_ready()

    def found(condition: str) -> set[int]:
        shown = tool("kafka-topics", "--describe", f"--{condition}-partitions").stdout
        return {count for count, name in names.items() if f"Topic: {name}\t" in shown}

    # The only replica stays in the in-sync set although it is gone: the tool counts the set, and looks for a leader.
    assert found("under-replicated") == {2, 3}
    assert found("unavailable") == {1}
    assert found("under-min-isr") == {1, 2}
    assert found("at-min-isr") == {1, 3}
    # A broker that is away gets replicas, too, as in Kafka 4.
    tool("kafka-topics", "--create", "--topic", topic, "--replication-factor", "3")
    refused = tool("kafka-topics", "--create", "--topic", f"{topic}-4", "--replication-factor", "4", must_succeed=False)
    assert "only 3 broker(s) are registered" in refused.output


def test_topics_with_settings_alone_are_shown_when_overrides_are_asked_for(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, [[1, 2]])
    place(cluster, f"{topic}-set", [[1, 2]], {"retention.ms": "7200000"})
    shown = tool("kafka-topics", "--describe", "--topics-with-overrides").lines
    # A setting of the brokers counts for the tool as one of each topic, so others may be shown as well.
    (own,) = [line for line in shown if f"Topic: {topic}-set\t" in line]
    assert "retention.ms=7200000" in own
    assert not [line for line in shown if "Partition: " in line]


def test_internal_topics_are_left_out_when_they_are_excluded(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, [[1, 2]])
    with consumer_of(cluster.bootstrap_servers, group_id=topic) as consumer:
        consumer.subscribe([topic])
        consumer.poll(1.0)
    everything = tool("kafka-topics", "--list").lines
    assert {topic, "__consumer_offsets"} <= set(everything)
    assert "__consumer_offsets" not in tool("kafka-topics", "--list", "--exclude-internal").lines
    described = tool("kafka-topics", "--describe", "--exclude-internal").stdout
    assert f"Topic: {topic}\t" in described
    assert "__consumer_offsets" not in described


def test_replica_on_its_way_is_not_missed_when_a_move_to_a_broker_that_hangs_is_under_way(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    asked = bystander(cluster).node_id
    controller = cluster.controller_id()
    (target,) = (broker.node_id for broker in cluster.brokers if broker.node_id not in (asked, controller))
    others = [asked, controller]
    place(cluster, topic, [others])
    cluster.pause(target)
    wanted = {TopicPartition(topic, 0): (*others, target)}
    assert start_moves(ClusterClient(cluster.broker(controller).bootstrap_servers), wanted) == {}
    cluster.wait_until_ready(PATIENCE_S)  # the tool would wait for a broker that hangs and is still named
    described = tool("kafka-topics", "--describe", "--topic", topic).stdout
    assert f"Adding Replicas: {target}" in described
    assert topic not in tool("kafka-topics", "--describe", "--under-replicated-partitions").stdout
    cluster.resume(target)
    cluster.wait_until_in_sync(PATIENCE_S)
