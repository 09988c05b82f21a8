from __future__ import annotations

import re

from apache_kafka.commands import run_command
from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic

# What every client of the last years relies on; the rest of the list grows with the broker.
NEEDED_APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "FindCoordinator",
    "JoinGroup",
    "ApiVersions",
    "CreateTopics",
)


def test_usable_versions_are_shown_when_the_broker_is_asked(broker: ServerProcess, kafka_tool: KafkaTool) -> None:
    shown = kafka_tool("kafka-broker-api-versions").stdout
    assert f"{broker.bootstrap_servers} (id: 1 rack: null isFenced: false) -> (" in shown
    for name in NEEDED_APIS:
        assert re.search(rf"\b{name}\(\d+\): [\d ]+to \d+ \[usable: \d+\]", shown), name


def test_no_unknown_api_is_advertised_when_the_broker_is_asked(kafka_tool: KafkaTool) -> None:
    assert "UNKNOWN(" not in kafka_tool("kafka-broker-api-versions").stdout


def test_cluster_id_is_shown_when_asked(broker: ServerProcess) -> None:
    shown = run_command("kafka-cluster", "cluster-id", "--bootstrap-server", broker.bootstrap_servers).stdout
    assert re.search(r"Cluster ID: \S{22}", shown)


def test_endpoints_are_listed_when_asked(broker: ServerProcess) -> None:
    listed = run_command("kafka-cluster", "list-endpoints", "--bootstrap-server", broker.bootstrap_servers).stdout
    assert re.search(rf"^1\s+127\.0\.0\.1\s+{broker.port}\s", listed, re.MULTILINE)


def test_producers_are_shown_when_a_partition_is_described(
    kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="a\nb\n")
    rows = kafka_tool("kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0").lines
    header, row = rows[0].split(), rows[1].split()
    assert header[:4] == ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"]
    assert (row[1], row[3], row[5]) == ("0", "1", "None")
