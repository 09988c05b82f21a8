"""Records by v3 with schemas, read by confluent-kafka's deserializers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.conftest import RunningBroker
from tests.clients.rest_v3.talking import V3, run_proxy
from tests.fake_registry import FakeRegistry, running_registry

WAIT_S = 30
AVRO = '{"type": "record", "name": "Order", "namespace": "n", "fields": [{"name": "id", "type": "long"}]}'
JSON = '{"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; }'


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture(scope="module")
def v3(broker: RunningBroker, registry: FakeRegistry) -> Iterator[V3]:
    with run_proxy(broker.bootstrap_servers, schema_registry_url=registry.url) as proxy:
        yield proxy


def _produce(v3: V3, topic: str, **value: Any) -> dict[str, Any]:
    answer = v3.ask("POST", f"/topics/{topic}/records", {"value": value})
    assert answer.status_code == 200
    told: dict[str, Any] = answer.json()
    return told


def _last_value(broker: RunningBroker, topic: str, offset: int) -> bytes:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": uuid.uuid4().hex})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(WAIT_S)
        assert message is not None
        return message.value() or b""
    finally:
        consumer.close()


@pytest.mark.parametrize(("kind", "schema"), [("AVRO", AVRO), ("JSONSCHEMA", JSON), ("PROTOBUF", PROTOBUF)])
def test_a_schema_is_named_by_text_id_version_or_not_at_all(
    v3: V3, broker: RunningBroker, registry: FakeRegistry, kind: str, schema: str
) -> None:
    topic = v3.make_topic("v3-schema")
    first = _produce(v3, topic, type=kind, schema=schema, data={"id": 1})
    assert first["error_code"] == 200, first
    told = first["value"]
    assert (told["type"], told["subject"]) == (kind, f"{topic}-value")
    for offset, choice in enumerate(
        [
            {"schema_id": told["schema_id"]},
            {"schema_version": 1},
            {"schema_id": str(told["schema_id"])},
            {"schema_version": "1"},
            {},
        ],
        start=1,
    ):
        again = _produce(v3, topic, **choice, data={"id": offset + 1})
        assert again["error_code"] == 200, again
        assert (again["offset"], again["value"]["type"], again["value"]["schema_id"]) == (
            offset,
            kind,
            told["schema_id"],
        )
    assert (again["value"]["subject"], again["value"]["schema_version"]) == (f"{topic}-value", 1)
    payload = _last_value(broker, topic, 3)
    assert payload[:5] == b"\0" + told["schema_id"].to_bytes(4, "big")
    context = SerializationContext(topic, MessageField.VALUE)
    client = SchemaRegistryClient({"url": registry.url})
    if kind == "AVRO":
        assert AvroDeserializer(client)(payload, context) == {"id": 4}
    elif kind == "JSONSCHEMA":
        assert JSONDeserializer(JSON)(payload, context) == {"id": 4}
    else:
        assert payload[5:] == b"\x00\x08\x04"


def test_a_record_has_its_own_code_when_its_schema_or_its_data_are_wrong(v3: V3, registry: FakeRegistry) -> None:
    topic = v3.make_topic("v3-schema-unfit")
    key = {"type": "AVRO", "schema": '"string"', "data": "k"}
    value = {"type": "AVRO", "schema": AVRO, "data": {"id": "x"}}
    unfit = v3.ask("POST", f"/topics/{topic}/records", {"key": key, "value": value})
    assert unfit.json()["error_code"] == 400
    assert not {f"{topic}-key", f"{topic}-value"} & set(registry.subjects)  # nothing is registered for it
    assert _produce(v3, topic, type="AVRO", schema="{", data={"id": 1})["error_code"] == 42205
    assert _produce(v3, topic, schema=AVRO, data={"id": 1})["error_code"] == 400
    assert _produce(v3, topic, schema_id=1, schema_version=1, data={"id": 1})["error_code"] == 400
    assert _produce(v3, topic, schema_id=12345, data={"id": 1})["error_code"] == 42205
    assert _produce(v3, topic, type="AVRO", schema=AVRO, data=None)["value"]["size"] == 0


def test_the_subject_is_chosen_by_name_or_by_strategy(v3: V3) -> None:
    topic = v3.make_topic("v3-subjects")
    own = _produce(v3, topic, type="AVRO", schema=AVRO, subject="my-own", data={"id": 1})
    assert own["value"]["subject"] == "my-own"
    by_record = _produce(v3, topic, type="AVRO", schema=AVRO, subject_name_strategy="TOPIC_RECORD_NAME", data={"id": 1})
    assert by_record["value"]["subject"] == f"{topic}-n.Order"


def test_large_records_are_written_in_several_steps_when_defaults_make_them_large(v3: V3) -> None:
    topic = v3.make_topic("v3-large")
    fields = [{"name": "text", "type": "string", "default": "x" * 100_000}]
    schema = json.dumps({"type": "array", "items": {"type": "record", "name": "Large", "fields": fields}})
    first = _produce(v3, topic, type="AVRO", schema=schema, data=[{}])
    assert first["error_code"] == 200, first

    def record(items: int) -> bytes:
        return json.dumps({"value": {"schema_id": first["value"]["schema_id"], "data": [{}] * items}}).encode()

    headers = {"content-type": "application/json"}
    body = [record(1)] * 30 + [record(1000)] + [record(2)] * 30
    for data in (b"".join(body), iter(body)):
        answer = v3.ask("POST", f"/topics/{topic}/records", data=data, headers=headers)
        codes = [json.loads(line)["error_code"] for line in answer.text.splitlines()]
        assert codes == [200] * 30 + [413] + [200] * 30
    schema_id = first["value"]["schema_id"]
    entries = [
        {"id": str(index), "value": {"schema_id": schema_id, "data": [{}] * items}}
        for index, items in enumerate((0, 1000, 0))
    ]
    told = v3.ask("POST", f"/topics/{topic}/records:batch", {"entries": entries}).json()
    assert [each["id"] for each in told["successes"]] == ["0", "2"]
    assert [each["error_code"] for each in told["failures"]] == [413]
