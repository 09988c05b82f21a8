"""kafka-topics against three brokers, one of which goes away."""

from __future__ import annotations

import penstock
from tests.interop.cluster.looking import describe, place
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
    refused = tool("kafka-topics", "--create", "--topic", topic, "--replication-factor", "3", must_succeed=False)
    assert "only 2 broker(s) are registered" in refused.output
