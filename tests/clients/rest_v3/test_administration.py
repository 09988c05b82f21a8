"""v3's administration against a broker, compared with what confluent-kafka's administration client sees."""

from __future__ import annotations

import pytest
import requests
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
)

from tests.clients.conftest import RunningBroker
from tests.clients.rest_v3.talking import RULE, V3, new_name

WAIT_S = 30


def _configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, str]:
    resource = ConfigResource(kind, name)
    found = admin.describe_configs([resource])[resource].result(WAIT_S)
    return {entry.name: entry.value for entry in found.values()}


def test_the_cluster_and_its_brokers_are_those_that_a_client_sees(v3: V3, admin: AdminClient) -> None:
    seen = admin.list_topics(timeout=WAIT_S)
    listed = v3.session.get(f"{v3.base}/v3/clusters", timeout=WAIT_S).json()
    assert listed["kind"] == "KafkaClusterList"
    assert listed["metadata"] == {"self": f"{v3.base}/v3/clusters", "next": None}
    (cluster,) = listed["data"]
    assert cluster == v3.get("")
    assert cluster["cluster_id"] == seen.cluster_id
    assert cluster["metadata"] == {"self": v3.url, "resource_name": f"crn:///kafka={seen.cluster_id}"}
    brokers = v3.get("/brokers")["data"]
    assert {row["broker_id"]: (row["host"], row["port"]) for row in brokers} == {
        node.id: (node.host, node.port) for node in seen.brokers.values()
    }
    for name in ("controller", "acls", "brokers", "broker_configs", "consumer_groups", "topics"):
        if name != "acls":
            assert requests.get(cluster[name]["related"], timeout=WAIT_S).status_code == 200, name


def test_another_cluster_is_not_found(v3: V3) -> None:
    answer = v3.session.get(f"{v3.base}/v3/clusters/another/topics", timeout=WAIT_S)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


def test_a_topic_is_made_described_grown_and_deleted(v3: V3, admin: AdminClient) -> None:
    name = new_name("v3-topic")
    body = {
        "topic_name": name,
        "partitions_count": "2",  # Confluent's proxy takes numbers as texts
        "replication_factor": 1,
        "configs": [{"name": "cleanup.policy", "value": "compact"}],
    }
    made = v3.ask("POST", "/topics", body)
    assert made.status_code == 201
    assert made.headers["location"] == f"{v3.url}/topics/{name}"
    assert made.json() == v3.get(f"/topics/{name}")
    assert made.json()["metadata"]["resource_name"] == f"crn:///kafka={v3.cluster_id}/topic={name}"
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 2
    assert _configs(admin, ResourceType.TOPIC, name)["cleanup.policy"] == "compact"
    assert name in [row["topic_name"] for row in v3.get("/topics")["data"]]

    grown = v3.ask("PATCH", f"/topics/{name}", {"partitions_count": 3})
    assert grown.status_code == 200
    assert grown.json()["partitions_count"] == 3
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 3
    assert v3.refused("PATCH", f"/topics/{name}", {"partitions_count": 3}) == (400, 40002)

    assert v3.ask("DELETE", f"/topics/{name}").status_code == 204
    assert v3.refused("GET", f"/topics/{name}") == (404, 40403)
    assert v3.refused("DELETE", f"/topics/{name}") == (404, 40403)
    assert v3.refused("PATCH", f"/topics/{name}", {"partitions_count": 3}) == (404, 40403)


def test_a_topic_is_made_with_the_replicas_that_are_asked_for(v3: V3, admin: AdminClient) -> None:
    node = next(iter(admin.list_topics(timeout=WAIT_S).brokers))
    name = v3.make_topic("v3-placed", replicas_assignments={"0": [node], "1": [node]})
    assert v3.get(f"/topics/{name}")["partitions_count"] == 2
    replicas = v3.get(f"/topics/{name}/partitions/1/replicas")["data"]
    assert [(row["broker_id"], row["is_leader"], row["is_in_sync"]) for row in replicas] == [(node, True, True)]


def test_nothing_is_made_when_a_topic_is_only_checked(v3: V3) -> None:
    name = new_name("v3-checked")
    answer = v3.ask("POST", "/topics", {"topic_name": name, "partitions_count": 4, "validate_only": True})
    assert answer.status_code == 200
    assert answer.json()["partitions_count"] == 4
    assert v3.refused("GET", f"/topics/{name}") == (404, 40403)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"topic_name": "v3-taken"}, (400, 40002)),
        ({"topic_name": "v3-few", "replication_factor": 7}, (400, 40002)),
        ({"topic_name": "v3-none", "partitions_count": 0}, (400, 40002)),
        ({"topic_name": "v3-odd", "configs": [{"name": "cleanup.policy", "value": "sometimes"}]}, (400, 40002)),
        ({"topic_name": "no/name"}, (422, 42206)),
        ({"partitions_count": 1}, (400, 400)),
        ({"topic_name": 17}, (400, 400)),
    ],
)
def test_a_topic_is_refused_when_it_makes_no_sense(v3: V3, body: dict[str, object], expected: tuple[int, int]) -> None:
    v3.ask("POST", "/topics", {"topic_name": "v3-taken"})
    assert v3.refused("POST", "/topics", body) == expected


def test_a_body_is_refused_when_it_is_empty_or_no_json(v3: V3) -> None:
    assert v3.refused("POST", "/topics", data=b"") == (422, 42206)
    assert v3.refused("POST", "/topics", data=b'{"topic_name":') == (400, 400)
    assert v3.refused("POST", "/topics", data=b"[" * 50_000) == (400, 400)


def test_the_rights_of_the_caller_are_told_when_they_are_asked_for(v3: V3) -> None:
    name = v3.make_topic("v3-rights")
    told = v3.get(f"/topics/{name}", params={"include_authorized_operations": "true"})["authorized_operations"]
    assert {"READ", "WRITE", "DESCRIBE"} <= set(told)
    assert "authorized_operations" not in v3.get(f"/topics/{name}")


def test_partitions_and_offsets_are_those_that_a_client_sees(v3: V3, broker: RunningBroker) -> None:
    name = v3.make_topic("v3-offsets", partitions_count=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(3):
        producer.produce(name, b"value", partition=1)
    assert producer.flush(WAIT_S) == 0
    partitions = v3.get(f"/topics/{name}/partitions")["data"]
    assert [row["partition_id"] for row in partitions] == [0, 1]
    assert partitions[1] == v3.get(f"/topics/{name}/partitions/1")
    leader = requests.get(partitions[1]["leader"]["related"], timeout=WAIT_S).json()
    assert leader["kind"] == "KafkaReplica"
    assert leader["is_leader"]
    offsets = v3.get(f"/topics/{name}/partitions/1/offset")
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 3)
    assert v3.refused("GET", f"/topics/{name}/partitions/1/offset?offset_type=middle") == (400, 400)
    assert v3.refused("GET", f"/topics/{name}/partitions/2") == (404, 40402)
    assert v3.refused("GET", f"/topics/{name}/partitions/x")[0] == 404
    assert v3.refused("GET", f"/topics/{name}/partitions/0/replicas/99") == (404, 404)
    held = v3.get(f"/brokers/{leader['broker_id']}/partition-replicas")["data"]
    assert [row["partition_id"] for row in held if row["topic_name"] == name] == [0, 1]


def test_no_move_is_told_when_none_is_under_way(v3: V3) -> None:
    name = v3.make_topic("v3-still")
    assert v3.get("/topics/-/partitions/-/reassignment")["data"] == []
    assert v3.get(f"/topics/{name}/partitions/-/reassignment")["data"] == []
    assert v3.refused("GET", f"/topics/{name}/partitions/0/reassignment") == (404, 404)
    assert v3.refused("GET", "/topics/no-such-topic/partitions/-/reassignment") == (404, 40403)


def test_settings_of_a_topic_are_changed_and_taken_back(v3: V3, admin: AdminClient) -> None:
    name = v3.make_topic("v3-configs")
    path = f"/topics/{name}/configs"
    listed = {row["name"]: row for row in v3.get(path)["data"]}
    seen = _configs(admin, ResourceType.TOPIC, name)
    assert {key: row["value"] for key, row in listed.items()} == seen
    assert listed["retention.ms"]["is_default"]
    assert listed["retention.ms"]["source"] == "DEFAULT_CONFIG"

    assert v3.ask("PUT", f"{path}/retention.ms", {"value": "1000"}).status_code == 204
    changed = v3.get(f"{path}/retention.ms")
    assert (changed["value"], changed["source"]) == ("1000", "DYNAMIC_TOPIC_CONFIG")
    assert changed["synonyms"][0] == {"name": "retention.ms", "value": "1000", "source": "DYNAMIC_TOPIC_CONFIG"}
    changes = {
        "data": [{"name": "retention.ms", "operation": "DELETE"}, {"name": "cleanup.policy", "value": "compact"}]
    }
    assert v3.ask("POST", f"{path}:alter", {**changes, "validate_only": True}).status_code == 204
    assert v3.get(f"{path}/retention.ms")["value"] == "1000"
    assert v3.ask("POST", f"{path}:alter", changes).status_code == 204
    seen = _configs(admin, ResourceType.TOPIC, name)
    assert (seen["retention.ms"], seen["cleanup.policy"]) == (listed["retention.ms"]["value"], "compact")
    assert v3.ask("DELETE", f"{path}/cleanup.policy").status_code == 204
    assert v3.get(f"{path}/cleanup.policy")["is_default"]
    everything = v3.get("/topics/-/configs")["data"]
    assert name in {row["topic_name"] for row in everything}

    assert v3.refused("PUT", f"{path}/retention.ms", {"value": "soon"}) == (400, 40002)
    assert v3.refused("GET", f"{path}/no.such.setting") == (404, 404)
    assert v3.refused("PUT", f"{path}/no.such.setting", {"value": "1"}) == (404, 404)
    assert v3.refused("GET", "/topics/no-such-topic/configs") == (404, 40403)


def test_settings_of_brokers_are_changed_and_taken_back(v3: V3, admin: AdminClient) -> None:
    node = next(iter(admin.list_topics(timeout=WAIT_S).brokers))
    path = f"/brokers/{node}/configs"
    assert {row["name"] for row in v3.get(path)["data"]} == set(_configs(admin, ResourceType.BROKER, str(node)))
    assert {row["broker_id"] for row in v3.get("/brokers/-/configs")["data"]} == {node}
    assert v3.ask("PUT", f"{path}/log.retention.ms", {"value": "200000"}).status_code == 204
    changed = v3.get(f"{path}/log.retention.ms")
    assert (changed["value"], changed["source"]) == ("200000", "DYNAMIC_BROKER_CONFIG")
    changes = {"data": [{"name": "log.retention.ms", "operation": "DELETE"}]}
    assert v3.ask("POST", f"{path}:alter", changes).status_code == 204
    assert v3.get(f"{path}/log.retention.ms")["source"] != "DYNAMIC_BROKER_CONFIG"
    assert v3.refused("GET", "/brokers/99/configs") == (404, 404)
    assert v3.refused("GET", f"{path}/no.such.setting") == (404, 404)

    assert v3.ask("PUT", "/broker-configs/log.retention.ms", {"value": "200000"}).status_code == 204
    one = v3.get("/broker-configs/log.retention.ms")
    assert (one["value"], one["source"], one["config_type"]) == ("200000", "DYNAMIC_DEFAULT_BROKER_CONFIG", "BROKER")
    assert one in v3.get("/broker-configs")["data"]
    assert v3.ask("DELETE", "/broker-configs/log.retention.ms").status_code == 204
    assert v3.refused("GET", "/broker-configs/log.retention.ms") == (404, 404)


def test_rights_are_refused_when_the_broker_has_no_authorizer(v3: V3) -> None:
    assert v3.refused("GET", "/acls") == (400, 40002)
    assert v3.refused("POST", "/acls", RULE) == (400, 40002)


def test_rights_are_refused_when_their_words_make_no_sense(v3: V3) -> None:
    for name, word in [("resource_type", "ANY"), ("pattern_type", "MATCH"), ("operation", "sing"), ("host", None)]:
        assert v3.refused("POST", "/acls", {**RULE, name: word}) == (400, 400), name
        assert v3.refused("POST", "/acls:batch", {"data": [{**RULE, name: word}]}) == (400, 400), name
    assert v3.refused("DELETE", "/acls") == (400, 400)
    assert v3.refused("GET", "/acls?resource_type=nonsense") == (400, 400)


def test_a_group_its_members_and_its_lag_are_those_that_a_client_sees(
    v3: V3, admin: AdminClient, broker: RunningBroker
) -> None:
    topic, group = v3.make_topic("v3-group-topic", partitions_count=2), new_name("v3/group")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(5):
        producer.produce(topic, b"value", partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": "v3-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    path = f"/consumer-groups/{group.replace('/', '%2F')}"
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.05)
        consumer.commit(offsets=[TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 2)], asynchronous=False)
        described = v3.get(path)
        seen = admin.describe_consumer_groups([group])[group].result(WAIT_S)
        assert (described["state"], described["type"], described["is_simple"]) == ("STABLE", "CLASSIC", False)
        assert described["partition_assignor"] == seen.partition_assignor
        assert requests.get(described["coordinator"]["related"], timeout=WAIT_S).status_code == 200
        assert described in v3.get("/consumer-groups")["data"]
        (member,) = v3.get(f"{path}/consumers")["data"]
        assert (member["consumer_id"], member["client_id"]) == (seen.members[0].member_id, "v3-reader")
        assert requests.get(member["metadata"]["self"], timeout=WAIT_S).json() == member
        assigned = requests.get(member["assignments"]["related"], timeout=WAIT_S).json()["data"]
        assert [(row["topic_name"], row["partition_id"]) for row in assigned] == [(topic, 0), (topic, 1)]
        assert requests.get(assigned[1]["metadata"]["self"], timeout=WAIT_S).json() == assigned[1]

        lags = v3.get(f"{path}/lags")["data"]
        assert [(row["partition_id"], row["current_offset"], row["log_end_offset"], row["lag"]) for row in lags] == [
            (0, 1, 3, 2),
            (1, 2, 2, 0),
        ]
        assert {row["consumer_id"] for row in lags} == {member["consumer_id"]}
        assert requests.get(assigned[0]["lag"]["related"], timeout=WAIT_S).json() == lags[0]
        summary = v3.get(f"{path}/lag-summary")
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (2, 2, 0)
        assert v3.refused("GET", f"{path}/consumers/nobody") == (404, 404)
        assert v3.refused("GET", f"{path}/lags/{topic}/partitions/7") == (404, 404)
    finally:
        consumer.close()
    assert v3.get(path)["state"] == "EMPTY"
    assert v3.refused("GET", "/consumer-groups/no-such-group") == (404, 40405)
    assert v3.refused("GET", "/consumer-groups/no-such-group/lag-summary") == (404, 40405)
