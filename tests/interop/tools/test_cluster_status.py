"""`penstock cluster status` reads by Kafka's protocol alone: the same look at Apache Kafka and at Penstock."""

from __future__ import annotations

import penstock.admin
from penstock.admin import TopicPartition
from penstock.testing.processes import ServerProcess
from tests.clients.cli_runner import Cli
from tests.clients.confluent import produce, producer_of
from tests.interop.conftest import MakeTopic


def test_status_is_whole_when_the_broker_is_healthy(broker: ServerProcess, make_topic: MakeTopic, topic: str) -> None:
    make_topic(topic, 3)
    produce(producer_of(broker.bootstrap_servers), topic, [b"1", b"2"], partition=1)
    result = Cli(broker.bootstrap_servers).try_run("cluster", "status", "--json")
    document = result.json
    problems = {each["name"] for each in document["findings"] if each["severity"] == "problem"}
    assert problems <= {"disk-full"}  # of the machine that runs this
    assert "unread" not in {each["name"] for each in document["findings"]}
    (seen,) = document["brokers"]
    assert document["controller"] == seen["id"]
    assert seen["leads"] == seen["replicas"] == document["partitions"] >= 3
    assert seen["stored_bytes"] > 0
    assert all(0 < each["usable_bytes"] <= each["total_bytes"] for each in seen["directories"])
    with penstock.admin.connect(broker.bootstrap_servers) as admin:
        ends, _ = admin.log_ends({TopicPartition(topic, 1): (seen["id"],)})
    assert [end for _, end in ends.values()] == [2]
