from __future__ import annotations

import json

import pytest

from penstock.cluster.deltas.delta import DeletedTopic
from penstock.cluster.deltas.nodes import create_topic_operations, delete_topic_operations
from penstock.cluster.image import BrokerRegistration, PartitionState, TopicImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.core.listeners import Endpoint

TOPIC = TopicImage("t", b"0123456789abcdef", (PartitionState(0, (1, 2), (1,), 1), PartitionState(1, (2, 1), (2, 1), 2)))
ASSIGNMENT = znodes.TopicAssignment(TOPIC.topic_id, {0: (1, 2)}, {}, {})


def test_topic_is_laid_out_as_kafka_did_when_encoded() -> None:
    assert json.loads(znodes.encode_topic(TOPIC)) == {
        "version": 3,
        "topic_id": "MDEyMzQ1Njc4OWFiY2RlZg",
        "partitions": {"0": [1, 2], "1": [2, 1]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert znodes.decode_topic("t", znodes.encode_topic(TOPIC)) == (TOPIC.topic_id, {0: (1, 2), 1: (2, 1)}, {}, {})


def test_partition_state_comes_back_when_decoded() -> None:
    state = PartitionState(3, (1, 2), (2,), 2, leader_epoch=7, partition_epoch=4)
    data = znodes.encode_partition_state(state, controller_epoch=9)
    assert json.loads(data) == {"version": 1, "leader": 2, "leader_epoch": 7, "isr": [2], "controller_epoch": 9}
    assignment = znodes.TopicAssignment(bytes(16), {3: (1, 2)}, {}, {})
    assert znodes.decode_partition_state("t", 3, assignment, data, version=4) == state


def test_replicas_that_come_and_go_are_kept_when_a_topic_is_decoded() -> None:
    moving = TopicImage("t", b"0123456789abcdef", (PartitionState(0, (1, 2), (1,), 1, adding=(2,), removing=(1,)),))
    assignment = znodes.decode_topic("t", znodes.encode_topic(moving))
    data = znodes.encode_partition_state(moving.partitions[0], controller_epoch=9)
    assert znodes.decode_partition_state("t", 0, assignment, data, version=0) == moving.partitions[0]


def test_broker_comes_back_when_decoded() -> None:
    endpoints = (Endpoint("PLAINTEXT", "host", 9092, "PLAINTEXT"), Endpoint("LOCAL", "::1", 9093, "PLAINTEXT"))
    broker = BrokerRegistration(4, endpoints, "rack", epoch=12, previous_epoch=7)
    data = znodes.encode_broker(broker, now_ms=5)
    assert znodes.decode_broker(4, data) == broker
    value = json.loads(data)
    assert (value["version"], value["host"], value["port"], value["timestamp"]) == (5, "host", 9092, "5")
    assert value["endpoints"] == ["PLAINTEXT://host:9092", "LOCAL://[::1]:9093"]


def test_small_values_come_back_when_decoded() -> None:
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("abc")) == "abc"
    assert znodes.decode_controller(znodes.encode_controller(3, 0)) == 3
    assert znodes.decode_controller_epoch(znodes.encode_controller_epoch(8)) == 8
    block = znodes.ProducerIdBlock(1000, 1000)
    assert znodes.decode_producer_id_block(znodes.encode_producer_id_block(block, 1)) == block
    assert json.loads(znodes.encode_producer_id_block(block, 1)) == {
        "version": 1,
        "broker": 1,
        "block_start": "1000",
        "block_end": "1999",
    }
    assert znodes.decode_settings("/x", znodes.encode_settings({"a": "ü"})) == {"a": "ü"}
    assert znodes.decode_settings("/x", b"") == {}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"{}", b'{"partitions":{"x":[1]}}', b'{"partitions":[]}'])
def test_node_is_named_when_it_cannot_be_understood(data: bytes) -> None:
    with pytest.raises(StoreError, match="/brokers/topics/t: the node cannot be understood") as error:
        znodes.decode_topic("t", data)
    assert error.value.kind is StoreErrorKind.CORRUPT
    for decode in (
        lambda: znodes.decode_broker(1, data),
        lambda: znodes.decode_partition_state("t", 0, ASSIGNMENT, data, 0),
        lambda: znodes.decode_controller(data),
        lambda: znodes.decode_controller_epoch(data),
        lambda: znodes.decode_producer_id_block(data),
    ):
        with pytest.raises(StoreError):
            decode()


def test_topic_is_refused_when_a_partition_is_missing() -> None:
    data = json.dumps({"topic_id": "MDEyMzQ1Njc4OWFiY2RlZg", "partitions": {"0": [1], "2": [1]}}).encode()
    with pytest.raises(StoreError, match="without gaps"):
        znodes.decode_topic("t", data)


def test_deleting_undoes_creating_when_operations_are_compared() -> None:
    created = [operation.path for operation in create_topic_operations(TOPIC, 1)]
    deleted = [operation.path for operation in delete_topic_operations(DeletedTopic("t", TOPIC.topic_id, 2))]
    assert sorted(created) == sorted(deleted)


def test_cluster_id_is_named_when_it_is_missing_from_its_node() -> None:
    with pytest.raises(StoreError, match="cannot be understood") as error:
        znodes.decode_cluster_id(b'{"version":"1"}')
    assert error.value.kind is StoreErrorKind.CORRUPT
