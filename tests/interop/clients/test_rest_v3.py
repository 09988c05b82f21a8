"""v3 of the REST proxy before Apache Kafka, and before Penstock: the same calls, the same answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
import requests
from confluent_kafka import Consumer, TopicPartition

from penstock.testing.processes import ServerProcess
from tests.clients.rest_v3.talking import RULE, V3, new_name, run_proxy

WAIT_S = 60


@pytest.fixture(scope="module")
def v3(broker: ServerProcess) -> Iterator[V3]:
    with run_proxy(broker.bootstrap_servers) as proxy:
        yield proxy


def _eventually(is_so: Callable[[], bool]) -> None:
    """Brokers of Apache Kafka hear of a change after whoever made it has been told."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _has(v3: V3, path: str, name: str, value: str) -> bool:
    answer = v3.ask("GET", path)
    return answer.status_code == 200 and answer.json()[name] == value


def test_the_cluster_its_brokers_and_its_topics_are_administered(v3: V3) -> None:
    (broker,) = v3.get("/brokers")["data"]
    node = broker["broker_id"]
    assert requests.get(v3.get("")["controller"]["related"], timeout=WAIT_S).json() == broker
    name = new_name("rest-v3")
    config = {"name": "cleanup.policy", "value": "compact"}
    body = {"topic_name": name, "partitions_count": 2, "replication_factor": 1, "configs": [config]}
    assert v3.ask("POST", "/topics", {**body, "validate_only": True}).status_code == 200
    made = v3.ask("POST", "/topics", body)
    assert (made.status_code, made.json()["partitions_count"]) == (201, 2)
    assert v3.refused("POST", "/topics", body) == (400, 40002)
    _eventually(lambda: _has(v3, f"/topics/{name}/configs/cleanup.policy", "source", "DYNAMIC_TOPIC_CONFIG"))
    assert v3.ask("PUT", f"/topics/{name}/configs/retention.ms", {"value": "1000"}).status_code == 204
    changes = {"data": [{"name": "cleanup.policy", "operation": "DELETE"}]}
    assert v3.ask("POST", f"/topics/{name}/configs:alter", changes).status_code == 204
    _eventually(lambda: _has(v3, f"/topics/{name}/configs/retention.ms", "value", "1000"))
    assert v3.refused("PUT", f"/topics/{name}/configs/retention.ms", {"value": "soon"}) == (400, 40002)
    assert v3.ask("PATCH", f"/topics/{name}", {"partitions_count": 3}).json()["partitions_count"] == 3
    _eventually(lambda: v3.ask("GET", f"/topics/{name}/partitions/2").status_code == 200)
    replicas = v3.get(f"/topics/{name}/partitions/2/replicas")["data"]
    assert [(row["broker_id"], row["is_leader"]) for row in replicas] == [(node, True)]
    assert v3.get(f"/topics/{name}/partitions/-/reassignment")["data"] == []
    assert {row["name"] for row in v3.get(f"/brokers/{node}/configs")["data"]} > {"log.dirs"}
    assert v3.ask("PUT", "/broker-configs/log.retention.ms", {"value": "200000"}).status_code == 204
    _eventually(lambda: _has(v3, "/broker-configs/log.retention.ms", "source", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    assert v3.ask("DELETE", "/broker-configs/log.retention.ms").status_code == 204
    assert v3.ask("DELETE", f"/topics/{name}").status_code == 204
    _eventually(lambda: v3.ask("GET", f"/topics/{name}/configs").status_code == 404)
    assert v3.refused("GET", f"/topics/{name}/configs") == (404, 40403)
    assert v3.refused("GET", "/acls") == (400, 40002)
    assert v3.refused("POST", "/acls", RULE) == (400, 40002)


def test_records_are_written_and_groups_are_told(v3: V3, broker: ServerProcess) -> None:
    topic, group = v3.make_topic("rest-v3-records", partitions_count=1, replication_factor=1), new_name("rest-v3-group")
    records = [{"value": {"type": "JSON", "data": {"number": number}}} for number in range(2000)]
    body = "".join(map(json.dumps, records)).encode()  # more than is read at once: it streams
    _eventually(lambda: v3.ask("GET", f"/topics/{topic}").status_code == 200)
    answer = v3.ask("POST", f"/topics/{topic}/records", data=body)
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert [(each["error_code"], each["offset"]) for each in told] == [(200, number) for number in range(2000)]
    assert v3.get(f"/topics/{topic}/partitions/0/offset")["latest_offset"] == 2000
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert json.loads(message.value() or b"") == {"number": 0}
        consumer.commit(offsets=[TopicPartition(topic, 0, 500)], asynchronous=False)
        described = v3.get(f"/consumer-groups/{group}")
        assert (described["state"], described["type"]) == ("STABLE", "CLASSIC")
        assert described in v3.get("/consumer-groups")["data"]
        (lag,) = v3.get(f"/consumer-groups/{group}/lags")["data"]
        assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (500, 2000, 1500)
        (member,) = v3.get(f"/consumer-groups/{group}/consumers")["data"]
        assert lag["consumer_id"] == member["consumer_id"]
        assert len(requests.get(member["assignments"]["related"], timeout=WAIT_S).json()["data"]) == 1
    finally:
        consumer.close()
    assert v3.refused("GET", "/consumer-groups/no-such-group") == (404, 40405)


def test_a_group_of_the_new_protocol_is_told_as_such(v3: V3, broker: ServerProcess) -> None:
    topic, group = v3.make_topic("rest-v3-new", partitions_count=2, replication_factor=1), new_name("rest-v3-new-group")
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "group.protocol": "consumer"}
    )
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.2)
        described = v3.get(f"/consumer-groups/{group}")
        assert described["type"] == "CONSUMER"
        assert described["metadata"] in [row["metadata"] for row in v3.get("/consumer-groups")["data"]]
        (member,) = v3.get(f"/consumer-groups/{group}/consumers")["data"]
        assigned = requests.get(member["assignments"]["related"], timeout=WAIT_S).json()["data"]
        assert [row["partition_id"] for row in assigned] == [0, 1]
    finally:
        consumer.close()
