"""A cluster of three Penstock brokers with a ZooKeeper, the same for all tests here. A test finds all brokers running
and in sync, whatever the test before it did to them.

Tools are pointed at a broker that is not the controller: what only the controller can do has to reach it.
"""

from __future__ import annotations

import pytest

import penstock
from apache_kafka.commands import ToolResult, run_command
from penstock.testing.pytest_plugin import KafkaClusterFixture
from tests.interop.cluster.cluster_view import PATIENCE_S, bystander
from tests.interop.conftest import KafkaTool


@pytest.fixture
def cluster(kafka_cluster: KafkaClusterFixture) -> penstock.Cluster:
    kafka_cluster.cluster.wait_until_in_sync(PATIENCE_S)
    return kafka_cluster.cluster


@pytest.fixture
def tool(cluster: penstock.Cluster) -> KafkaTool:
    def run(name: str, *arguments: str, standard_input: str = "", must_succeed: bool = True) -> ToolResult:
        servers = ("--bootstrap-server", bystander(cluster).bootstrap_servers)
        # This one has commands of its own, whose options come after them.
        at = 1 if name == "kafka-cluster" else 0
        whole = (*arguments[:at], *servers, *arguments[at:])
        return run_command(name, *whole, standard_input=standard_input, must_succeed=must_succeed)

    return run
