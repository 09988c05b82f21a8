"""The rest of Kafka's tools against three brokers: groups, transactions, records, load, and what the cluster is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from confluent_kafka import TopicPartition

import penstock
from apache_kafka.commands import ToolResult, run_command
from penstock.coordinators.partitioning import partition_for
from tests.clients.confluent import admin_of, consumer_of, produce, producer_of, read
from tests.interop.cluster.cluster_view import PATIENCE_S, bystander, place
from tests.interop.conftest import KafkaTool

SPREAD = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
NODES = {"1", "2", "3"}


def table(tool: KafkaTool, *arguments: str) -> list[dict[str, str]]:
    """What kafka-transactions prints, whose columns are separated by tabs."""
    rows = [re.split(r"\s*\t\s*", line.strip()) for line in tool("kafka-transactions", *arguments).lines]
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


# ------------------------------------------------------------------------------------------------ the cluster


def test_every_broker_is_shown_when_the_cluster_is_described(tool: KafkaTool, cluster: penstock.Cluster) -> None:
    versions = tool("kafka-broker-api-versions").stdout
    endpoints = tool("kafka-cluster", "list-endpoints").stdout
    for broker in cluster.brokers:
        assert f"{broker.bootstrap_servers} (id: {broker.node_id} rack: null isFenced: false) -> (" in versions
        row = rf"^{broker.node_id}\s+{broker.host}\s+{broker.port}\s+null\s+unfenced\s+broker"
        assert re.search(row, endpoints, re.MULTILINE)
    ids = {
        run_command("kafka-cluster", "cluster-id", "--bootstrap-server", broker.bootstrap_servers).stdout
        for broker in cluster.brokers
    }
    assert len(ids) == 1
    assert re.fullmatch(r"Cluster ID: \S{22}\n", ids.pop())


def test_broker_is_fenced_until_it_is_unregistered_when_it_is_dead(tool: KafkaTool, cluster: penstock.Cluster) -> None:
    gone = bystander(cluster)
    cluster.kill(gone.node_id)
    cluster.wait_until_ready(PATIENCE_S)

    def listed(*options: str) -> bool:
        row = rf"^{gone.node_id}\s+{gone.host}\s+{gone.port}\s+null\s+fenced\s+broker"
        servers = ("--bootstrap-server", cluster.broker(cluster.controller_id()).bootstrap_servers)
        shown = run_command("kafka-cluster", "list-endpoints", *servers, *options).stdout
        return re.search(row, shown, re.MULTILINE) is not None

    def unregister() -> ToolResult:
        return tool("kafka-cluster", "unregister", "--id", str(gone.node_id), must_succeed=False)

    assert listed("--include-fenced-brokers")
    assert not listed()
    assert f"Broker {gone.node_id} is no longer registered." in unregister().output
    assert not listed("--include-fenced-brokers")
    again = unregister()
    assert again.return_code == 1
    assert "BrokerIdNotRegisteredException" in again.output
    cluster.start_broker(gone.node_id)
    cluster.wait_until_in_sync(PATIENCE_S)


def test_features_are_finalized_when_the_cluster_describes_them(tool: KafkaTool) -> None:
    described = tool("kafka-features", "describe").stdout
    assert re.search(r"Feature: transaction\.version\s.*FinalizedVersionLevel: 2\s", described)
    assert re.search(r"Feature: group\.version\s.*FinalizedVersionLevel: 1\s", described)


def test_controller_is_the_only_voter_when_the_quorum_is_described(tool: KafkaTool, cluster: penstock.Cluster) -> None:
    described = dict(line.split(":", 1) for line in tool("kafka-metadata-quorum", "describe", "--status").lines)
    leader = int(described["LeaderId"])
    assert leader == cluster.controller_id()
    assert [voter["id"] for voter in json.loads(described["CurrentVoters"])] == [leader]


# ------------------------------------------------------------------------------------------------ groups, transactions


def one_group_for_each_broker(cluster: penstock.Cluster, prefix: str) -> list[str]:
    """Names of groups, each with another coordinator."""
    admin = admin_of(cluster.bootstrap_servers)
    with consumer_of(cluster.bootstrap_servers, group_id=prefix) as consumer:
        consumer.list_topics(timeout=PATIENCE_S)
        consumer.committed([TopicPartition(prefix, 0)], timeout=PATIENCE_S)  # so that the coordinators' topic is there
    partitions = admin.list_topics("__consumer_offsets", timeout=PATIENCE_S).topics["__consumer_offsets"].partitions
    names: dict[int, str] = {}
    for number in range(1_000):
        group = f"{prefix}-{number}"
        names.setdefault(partitions[partition_for(group, len(partitions))].leader, group)
    return sorted(names.values())


def test_group_is_shown_reset_and_deleted_when_its_coordinator_is_any_broker(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, SPREAD)
    producer = producer_of(cluster.bootstrap_servers)
    for partition in range(3):
        produce(producer, topic, [b"a", b"b"], partition=partition)
    tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    groups = one_group_for_each_broker(cluster, topic)
    for group in groups:
        with consumer_of(cluster.bootstrap_servers, group_id=group) as consumer:
            consumer.subscribe([topic])
            read(consumer, 6)
            consumer.commit(asynchronous=False)
    assert set(groups) <= set(tool("kafka-consumer-groups", "--list").lines)
    states = tool("kafka-consumer-groups", "--describe", "--all-groups", "--state").lines
    rows = [(line.split()[0], re.search(r"\(([123])\)\s.*Empty", line)) for line in states if line.strip()]
    assert {found.group(1) for group, found in rows if found and group in groups} == NODES
    chosen = ("--group", groups[0])
    described = [line.split() for line in tool("kafka-consumer-groups", "--describe", *chosen).lines]
    assert {tuple(row[2:6]) for row in described if row[0] == groups[0]} == {(str(n), "2", "2", "0") for n in range(3)}
    tool("kafka-consumer-groups", "--reset-offsets", "--to-earliest", *chosen, "--topic", topic, "--execute")
    lags = [line.split()[5] for line in tool("kafka-consumer-groups", "--describe", *chosen).lines if topic in line]
    assert lags == ["2", "2", "2"]
    tool("kafka-consumer-groups", "--delete", *(word for group in groups for word in ("--group", group)))
    assert not set(groups) & set(tool("kafka-consumer-groups", "--list").lines)


def test_transaction_is_found_on_every_replica_when_it_is_open(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, SPREAD)
    producer = producer_of(cluster.bootstrap_servers, transactional_id=topic)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    produce(producer, topic, [b"open"], partition=0)
    (own,) = [row for row in table(tool, "list") if row["TransactionalId"] == topic]
    assert own["TransactionState"] == "Ongoing"
    assert own["Coordinator"] in NODES
    (described,) = table(tool, "describe", "--transactional-id", topic)
    assert described["TopicPartitions"] == f"{topic}-0"
    assert described["CoordinatorId"] == own["Coordinator"]
    place_of = ("--topic", topic, "--partition", "0")
    for node_id in sorted(NODES):
        (writing,) = table(tool, "describe-producers", *place_of, "--broker-id", node_id)
        assert (writing["ProducerId"], writing["CurrentTransactionStartOffset"]) == (own["ProducerId"], "0")
        assert table(tool, "find-hanging", "--broker-id", node_id) == []
    producer.commit_transaction(PATIENCE_S)
    assert table(tool, "describe", "--transactional-id", topic)[0]["TransactionState"] == "CompleteCommit"


# ------------------------------------------------------------------------------------------------ records


def test_offsets_and_sizes_are_those_of_all_brokers_when_records_are_written_and_deleted(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    place(cluster, topic, SPREAD)
    producer = producer_of(cluster.bootstrap_servers)
    for partition in range(3):
        produce(producer, topic, [b"%d" % number for number in range(10)], partition=partition)
    deletion = tmp_path / "delete.json"
    partitions = [{"topic": topic, "partition": index, "offset": offset} for index, offset in ((0, 4), (1, -1))]
    deletion.write_text(json.dumps({"partitions": partitions, "version": 1}))
    deleted = tool("kafka-delete-records", "--offset-json-file", str(deletion)).stdout
    assert f"partition: {topic}-0\tlow_watermark: 4" in deleted
    assert f"partition: {topic}-1\tlow_watermark: 10" in deleted
    for time, offsets in (("latest", (10, 10, 10)), ("earliest", (4, 10, 0))):
        found = tool("kafka-get-offsets", "--topic", topic, "--time", time).lines
        assert found == [f"{topic}:{index}:{offset}" for index, offset in enumerate(offsets)]
    lines = tool("kafka-log-dirs", "--describe", "--topic-list", topic).lines
    report = json.loads(next(line for line in lines if line.startswith("{")))
    assert {str(broker["broker"]) for broker in report["brokers"]} == NODES
    for broker in report["brokers"]:
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        rows = {row["partition"]: row for row in directory["partitions"]}
        assert set(rows) == {f"{topic}-{index}" for index in range(3)}
        assert all(row["size"] > 0 and row["offsetLag"] == 0 for row in rows.values())


def test_every_record_is_acknowledged_by_all_when_load_tools_run(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str
) -> None:
    place(cluster, topic, SPREAD)
    load = ("--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    servers = ("--bootstrap-server", bystander(cluster).bootstrap_servers)
    written = run_command("kafka-producer-perf-test", *load, *servers, "--command-property", "acks=all")
    assert "20000 records sent" in written.lines[-1]
    assert "Exception" not in written.output
    sent = tool("kafka-verifiable-producer", "--topic", topic, "--max-messages", "300", "--acks", "-1")
    confirmed = [each for line in sent.lines if (each := json.loads(line))["name"] == "producer_send_success"]
    assert len({(each["partition"], each["offset"]) for each in confirmed}) == 300
    chosen = ("--topic", topic, "--group-id", topic, "--max-messages", "20300", "--reset-policy", "earliest")
    received = [json.loads(line) for line in tool("kafka-verifiable-consumer", *chosen).lines]
    assert sum(each["count"] for each in received if each["name"] == "records_consumed") == 20_300
    assert all(each["success"] for each in received if each["name"] == "offsets_committed")
    measured = ("--topic", topic, "--num-records", "100", "--producer-acks", "all", "--record-size", "100")
    assert re.search(r"Percentiles: 50th = \d+", tool("kafka-e2e-latency", *measured).stdout)
