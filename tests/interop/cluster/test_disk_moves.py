"""kafka-reassign-partitions with directories in its plan, against three brokers."""

from __future__ import annotations

import json
from pathlib import Path

import penstock
from tests.clients.confluent import produce, producer_of, read_topic, values
from tests.clients.support import eventually
from tests.interop.cluster.cluster_view import describe, place
from tests.interop.conftest import KafkaTool

REASSIGN = "kafka-reassign-partitions"
VALUES = [b"%d" % number for number in range(20)]


def directory_of(cluster: penstock.Cluster, node_id: int) -> Path:
    log_path = cluster.broker(node_id).log_path
    assert log_path is not None
    return log_path.with_suffix("")


def test_replica_is_made_in_the_directory_of_the_plan_when_it_moves_to_another_broker(
    tool: KafkaTool, cluster: penstock.Cluster, topic: str, tmp_path: Path
) -> None:
    first, second, _ = sorted(broker.node_id for broker in cluster.brokers)
    place(cluster, topic, [[first]])
    produce(producer_of(cluster.bootstrap_servers), topic, VALUES)
    plan = tmp_path / "plan.json"
    target = directory_of(cluster, second)
    move = {"topic": topic, "partition": 0, "replicas": [second], "log_dirs": [str(target)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    file = ("--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignment" in tool(REASSIGN, *file, "--execute").output
    eventually(lambda: describe(tool, topic)[0].replicas == [second], "the move to another broker")
    verified = tool(REASSIGN, *file, "--verify").output
    assert f"Reassignment of replica {topic}-0-{second} completed successfully." in verified
    assert (target / f"{topic}-0").is_dir()
    assert values(read_topic(cluster.bootstrap_servers, topic, len(VALUES))) == VALUES
