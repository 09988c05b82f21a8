"""kafka-leader-election and kafka-reassign-partitions against three brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import penstock
from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.clients.cli_runner import Cli
from tests.clients.confluent import produce, producer_of, read_topic, values
from tests.interop.cluster.cluster_view import PATIENCE_S, describe, place
from tests.interop.conftest import KafkaTool

ELECT = "kafka-leader-election"
REASSIGN = "kafka-reassign-partitions"


def others(cluster: penstock.Cluster, node_id: int) -> list[int]:
    return [broker.node_id for broker in cluster.brokers if broker.node_id != node_id]


def plan_file(directory: Path, topic: str, replicas: Mapping[int, Sequence[int]]) -> tuple[str, str]:
    partitions = [{"topic": topic, "partition": index, "replicas": list(each)} for index, each in replicas.items()]
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return "--reassignment-json-file", str(path)


# ------------------------------------------------------------------------------------------------ elections


def test_broker_leads_again_when_it_is_back_and_preferred_leaders_are_elected(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    first, second = others(cluster, cluster.controller_id())
    place(cluster, topic, [[first, second], [second, first]])
    cluster.kill(first)
    cluster.wait_until_ready()
    chosen = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    away = tool(ELECT, *chosen, must_succeed=False)
    assert "PreferredLeaderNotAvailableException" in away.output
    assert away.return_code == 1
    assert {each.leader for each in describe(tool, topic).values()} == {second}
    cluster.start_broker(first)
    cluster.wait_until_in_sync(PATIENCE_S)
    assert tool(ELECT, *chosen).lines == [
        f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"
    ]
    assert [each.leader for each in describe(tool, topic).values()] == [first, second]
    tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    assert tool(ELECT, "--election-type", "preferred", "--all-topic-partitions").lines == []


def test_replica_that_misses_records_leads_when_an_unclean_election_is_asked_for(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    last, behind = others(cluster, cluster.controller_id())
    place(cluster, topic, [[last, behind]], {"min.insync.replicas": "1"})
    producer = producer_of(cluster.bootstrap_servers)
    produce(producer, topic, [b"both have it"])
    cluster.kill(behind)
    produce(producer, topic, [b"the last one alone has it"])
    cluster.kill(last)
    cluster.start_broker(behind)
    cluster.wait_until_ready()
    assert describe(tool, topic, "--unavailable-partitions")[0].leader is None
    chosen = ("--topic", topic, "--partition", "0")
    refused = tool(ELECT, "--election-type", "preferred", *chosen, must_succeed=False)
    assert "PreferredLeaderNotAvailableException" in refused.output
    elected = tool(ELECT, "--election-type", "unclean", *chosen).lines
    assert elected == [f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0"]
    assert describe(tool, topic)[0] == (behind, [last, behind], {behind})
    produce(producer, topic, [b"written after it"])
    cluster.start_broker(last)
    cluster.wait_until_in_sync(PATIENCE_S)
    read = values(read_topic(cluster.bootstrap_servers, topic, 2))
    assert read == [b"both have it", b"written after it"]


def test_named_partitions_alone_get_their_preferred_leader_when_a_file_names_them(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    place(cluster, topic, [[1, 2], [1, 2], [1, 2]])
    for index in range(3):
        begin_move(cluster, topic, [2, 1], index)
    chosen = tmp_path / "elections.json"
    chosen.write_text(json.dumps({"partitions": [{"topic": topic, "partition": index} for index in (0, 2)]}))
    elected = tool(ELECT, "--election-type", "preferred", "--path-to-json-file", str(chosen)).stdout
    assert f"{topic}-0" in elected
    assert f"{topic}-1" not in elected
    assert [each.leader for each in describe(tool, topic).values()] == [2, 1, 2]
    again = tool(ELECT, "--election-type", "preferred", "--path-to-json-file", str(chosen)).stdout
    assert "Valid replica already elected for partitions" in again


# ------------------------------------------------------------------------------------------------ reassignments


def test_replicas_move_when_a_plan_is_generated_executed_and_verified(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    place(cluster, topic, [[1, 2], [2, 1]])
    produce(producer_of(cluster.bootstrap_servers), topic, [b"%d" % number for number in range(100)], partition=0)
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = tool(REASSIGN, "--generate", "--topics-to-move-json-file", str(wanted), "--broker-list", "3,1").lines
    proposed = json.loads(generated[generated.index("Proposed partition reassignment configuration") + 1])
    assert [sorted(each["replicas"]) for each in proposed["partitions"]] == [[1, 3], [1, 3]]

    plan = plan_file(tmp_path, topic, {0: [3, 2, 1], 1: [3]})  # one gets a replica more, the other one less
    started = tool(REASSIGN, *plan, "--execute", "--throttle", "50000000").stdout
    assert "The inter-broker throttle limit was set to 50000000 B/s" in started
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in started
    cluster.wait_until_in_sync(PATIENCE_S)
    while "still in progress" in (verified := tool(REASSIGN, *plan, "--verify", "--preserve-throttles").stdout):
        pass
    for index in (0, 1):
        assert f"Reassignment of partition {topic}-{index} is completed." in verified
    throttled = tool("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic).stdout
    assert "leader.replication.throttled.replicas=" in throttled
    assert "follower.replication.throttled.replicas=" in throttled
    assert "Clearing topic-level throttles" in tool(REASSIGN, *plan, "--verify").stdout
    for entity in (("topics", "--entity-name", topic), ("brokers", "--entity-name", "3")):
        assert "throttled" not in tool("kafka-configs", "--describe", "--entity-type", *entity).stdout
    moved = describe(tool, topic)
    assert [(each.replicas, each.in_sync) for each in moved.values()] == [([3, 2, 1], {1, 2, 3}), ([3], {3})]
    read = values(read_topic(cluster.bootstrap_servers, topic, 100))
    assert read == [b"%d" % number for number in range(100)]


def test_a_move_waits_when_it_is_throttled_and_ends_when_the_throttle_is_raised(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    place(cluster, topic, [[1, 2]])
    produce(producer_of(cluster.bootstrap_servers), topic, [b"x" * 10_000 for _ in range(300)], partition=0)
    plan = plan_file(tmp_path, topic, {0: [2, 3]})
    tool(REASSIGN, *plan, "--execute", "--throttle", "20000")  # two minutes and a half
    verified = tool(REASSIGN, *plan, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is still in progress." in verified
    produce(producer_of(cluster.bootstrap_servers), topic, [b"meanwhile"], partition=0)  # on all that are in sync
    raised = tool(REASSIGN, *plan, "--execute", "--additional", "--throttle", "100000000").stdout
    assert "The inter-broker throttle limit was set to 100000000 B/s" in raised
    while "still in progress" in (verified := tool(REASSIGN, *plan, "--verify").stdout):
        pass
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "Clearing topic-level throttles" in verified
    assert describe(tool, topic)[0].in_sync == {2, 3}
    assert values(read_topic(cluster.bootstrap_servers, topic, 301))[-1] == b"meanwhile"


def test_replicas_stay_when_a_move_to_a_broker_that_hangs_is_cancelled(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    controller = cluster.controller_id()
    stays, target = others(cluster, controller)
    place(cluster, topic, [[stays, controller]])
    cluster.pause(target)
    # A tool would take longer to start than the broker's session lasts.
    begin_move(cluster, topic, [target, controller])
    plan = plan_file(tmp_path, topic, {0: [target, controller]})
    expected = f"{topic}-0: replicas: {target},{controller},{stays}. adding: {target}. removing: {stays}."
    assert expected in tool(REASSIGN, "--list").lines
    assert f"Reassignment of partition {topic}-0 is still in progress." in tool(REASSIGN, *plan, "--verify").stdout
    # The tool would ask every broker to take its throttles away, and wait a minute for the one that hangs.
    cancelled = tool(REASSIGN, *plan, "--cancel", "--preserve-throttles").stdout
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled
    cluster.resume(target)
    assert tool(REASSIGN, "--list").lines == ["No partition reassignments found."]
    # In the order of the plan: what a move began with is not remembered, as in Kafka.
    assert describe(tool, topic)[0] == (stays, [controller, stays], {stays, controller})


def begin_move(cluster: penstock.Cluster, topic: str, replicas: list[int], index: int = 0) -> None:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000, topics=[ReassignableTopic(name=topic, partitions=[partition])]
    )
    controller = cluster.broker(cluster.controller_id())
    with BlockingConnection(controller.host, controller.port) as connection:
        (answer,) = connection.request(request, 0).responses
    assert answer.partitions[0].error_code == ErrorCode.NONE


def test_move_is_refused_when_the_broker_is_unknown(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    place(cluster, topic, [[1, 2]])
    refused = tool(REASSIGN, *plan_file(tmp_path, topic, {0: [1, 9]}), "--execute", must_succeed=False)
    assert "Unknown broker id 9" in refused.output


def test_moves_that_our_command_began_are_ended_by_kafkas_tool_when_it_verifies_them(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    place(cluster, topic, [[1, 2], [2, 3]])
    plan = plan_file(tmp_path, topic, {0: [1, 2, 3], 1: [2]})
    Cli(cluster.bootstrap_servers).run("reassign", "apply", plan[1], "--no-wait", "--yes")
    cluster.wait_until_in_sync(PATIENCE_S)
    while "still in progress" in (verified := tool(REASSIGN, *plan, "--verify").stdout):
        pass
    assert verified.count("is completed.") == 2
    for entity in (("topics", "--entity-name", topic), ("brokers", "--entity-name", "3")):
        assert "throttled" not in tool("kafka-configs", "--describe", "--entity-type", *entity).stdout
    assert [each.replicas for each in describe(tool, topic).values()] == [[1, 2, 3], [2]]
