"""Keys and values with a schema over HTTP, with confluent-kafka's serializers and deserializers on the other side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.confluent import create_topic, produce, producer_of
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest, b64, embedded, running_rest
from tests.clients.rest.test_v2_produce import read
from tests.clients.support import new_name
from tests.fake_registry import FakeRegistry, running_registry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; repeated string tags = 2; }'


class Serving(NamedTuple):
    rest: Rest
    registry: FakeRegistry
    broker: RunningBroker

    def topic(self) -> str:
        return create_topic(self.broker.bootstrap_servers)

    def read(self, topic: str, form: str) -> list[Any]:
        path = self.rest.instance(new_name("group"), format=form)
        self.rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        answer = self.rest.get(f"{path}/records?timeout=20000")
        assert answer.status == 200, answer
        self.rest.delete(path)
        return [(each["key"], each["value"]) for each in answer.json]


@pytest.fixture(scope="module")
def serving(broker: RunningBroker) -> Iterator[Serving]:
    with (
        running_registry() as registry,
        running_rest(broker.bootstrap_servers, **{"schema.registry.url": registry.url}) as rest,
    ):
        yield Serving(rest, registry, broker)


@pytest.mark.parametrize(
    ("form", "schema", "key_schema", "values"),
    [
        ("avro", AVRO, '"string"', [{"id": 1, "note": None}, {"id": 2, "note": {"string": "two"}}]),
        ("jsonschema", JSON_SCHEMA, '{"type":"string"}', [{"id": 1}, {"id": 2, "more": [None]}]),
    ],
)
def test_records_are_read_back_when_their_schema_is_given_as_text_or_id(
    serving: Serving, form: str, schema: str, key_schema: str, values: list[Any]
) -> None:
    topic = serving.topic()
    records = [{"key": "k", "value": value} for value in [*values, None]]
    written = serving.rest.produce(topic, records, form, value_schema=schema, key_schema=key_schema)
    assert written.status == 200, written
    ids = {name: written.json[name] for name in ("key_schema_id", "value_schema_id")}
    assert len(set(ids.values())) == 2
    for given in (ids, {name: str(number) for name, number in ids.items()}):  # Confluent's proxy takes texts, too
        again = serving.rest.produce(topic, records[:1], form, **given)
        assert {name: again.json[name] for name in ids} == ids
    assert serving.read(topic, form) == [("k", each["value"]) for each in [*records, records[0], records[0]]]
    assert set(serving.registry.subjects) >= {f"{topic}-key", f"{topic}-value"}


def test_messages_are_read_back_when_the_format_is_protobuf(serving: Serving) -> None:
    topic = serving.topic()
    value = {"id": "9007199254740993", "tags": ["a"]}  # Protobuf's JSON has 64-bit numbers as texts
    written = serving.rest.produce(topic, [{"value": value}], "protobuf", value_schema=PROTOBUF)
    assert written.json["offsets"][0]["error_code"] is None
    assert serving.read(topic, "protobuf") == [(None, value)]


def test_confluents_deserializers_read_records_when_they_come_over_http(serving: Serving) -> None:
    with SchemaRegistryClient({"url": serving.registry.url}) as client:
        topic = serving.topic()
        serving.rest.produce(topic, [{"value": {"id": 7, "note": {"string": "x"}}}], "avro", value_schema=AVRO)
        serving.rest.produce(topic, [{"value": {"id": 8}}], "jsonschema", value_schema=JSON_SCHEMA)
        first, second = (each.value() for each in read(serving.broker, topic, 2))
        context = SerializationContext(topic, MessageField.VALUE)
        assert AvroDeserializer(client)(first, context) == {"id": 7, "note": "x"}
        assert JSONDeserializer(JSON_SCHEMA, schema_registry_client=client)(second, context) == {"id": 8}


def test_records_of_confluents_serializers_are_read_over_http_when_the_format_fits(serving: Serving) -> None:
    topic = serving.topic()
    with SchemaRegistryClient({"url": serving.registry.url}) as client:
        context = SerializationContext(topic, MessageField.VALUE)
        payload = AvroSerializer(client, AVRO)({"id": 5, "note": "theirs"}, context)
    produce(producer_of(serving.broker.bootstrap_servers), topic, [payload])
    assert serving.read(topic, "avro") == [(None, {"id": 5, "note": {"string": "theirs"}})]


@pytest.mark.parametrize(
    ("more", "value", "code"),
    [
        ({"value_schema": AVRO}, {"id": "no number"}, 42203),
        ({"value_schema": AVRO}, {"id": 1, "note": "without its branch"}, 42203),
        ({"value_schema": AVRO}, 7, 42203),
        ({"value_schema": "{"}, {"id": 1}, 42205),
        ({"value_schema": '{"type": "record"}'}, {"id": 1}, 42205),
        ({"value_schema_id": 99_999}, {"id": 1}, 42205),
        ({"value_schema_id": -1}, {"id": 1}, 422),
        ({}, {"id": 1}, 42202),
    ],
)
def test_record_is_refused_with_a_code_when_it_does_not_fit_its_schema(
    serving: Serving, more: dict[str, Any], value: Any, code: int
) -> None:
    answer = serving.rest.produce("never-written", [{"value": value}], "avro", **more)
    assert (answer.status, answer.code) == (422, code), answer


def test_no_schema_is_registered_when_one_of_the_records_does_not_fit(serving: Serving) -> None:
    topic = serving.topic()
    schemas = {"key_schema": '"string"', "value_schema": AVRO}
    good = {"key": "a", "value": {"id": 1, "note": None}}
    answer = serving.rest.produce(topic, [good, {"key": "b", "value": {"id": "no number"}}], "avro", **schemas)
    assert answer.code == 42203, answer
    assert not {f"{topic}-key", f"{topic}-value"} & set(serving.registry.subjects)
    assert serving.rest.produce(topic, [good], "avro", **schemas).status == 200
    assert {f"{topic}-key", f"{topic}-value"} <= set(serving.registry.subjects)
    assert serving.read(topic, "avro") == [("a", {"id": 1, "note": None})]


@pytest.mark.parametrize("value", [b'{"id": 1, "note": "\xff"}', b"1e400", b'"\\ud800"', b"[" * 5_000 + b"]" * 5_000])
def test_record_is_refused_when_its_json_holds_what_no_schema_can_take(serving: Serving, value: bytes) -> None:
    schema_id = serving.rest.produce(serving.topic(), [{"value": {"id": 1, "note": None}}], "avro", value_schema=AVRO)
    body = b'{"value_schema_id": %d, "records": [{"value": %s}]}' % (schema_id.json["value_schema_id"], value)
    answer = serving.rest.post("/topics/never-written", body, embedded("avro"))
    assert answer.status in (400, 422), answer
    assert answer.code in (400, 42206), answer


def test_schema_is_refused_when_it_is_of_another_type(serving: Serving) -> None:
    topic = serving.topic()
    written = serving.rest.produce(topic, [{"value": {"id": 1}}], "jsonschema", value_schema=JSON_SCHEMA)
    schema_id = written.json["value_schema_id"]
    assert serving.rest.produce(topic, [{"value": {"id": 1}}], "avro", value_schema_id=schema_id).code == 42205


def test_caller_is_told_which_record_when_a_topic_has_one_without_a_schema(serving: Serving) -> None:
    topic = serving.topic()
    serving.rest.produce(topic, [{"value": b64(b"plain")}], "binary")
    path = serving.rest.instance(new_name("group"), format="avro")
    serving.rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    answer = serving.rest.get(f"{path}/records?timeout=20000")
    assert (answer.status, answer.code) == (422, 42206)
    assert f"{topic}-0, offset 0" in answer.json["message"]
    serving.rest.delete(path)


def test_request_is_refused_when_defaults_make_its_records_too_large(serving: Serving) -> None:
    fields = [{"name": "text", "type": "string", "default": "x" * 100_000}]
    schema = json.dumps({"type": "record", "name": "Large", "fields": fields})
    topic = serving.topic()
    answer = serving.rest.produce(topic, [{"value": {}}] * 1000, "avro", value_schema=schema)
    assert (answer.status, answer.code) == (413, 413), answer
    assert answer.json["message"].startswith("records[167]: ")
    assert serving.rest.produce(topic, [{"value": {}}] * 5, "avro", value_schema=schema).status == 200
    assert serving.rest.server is not None
    assert serving.rest.server.proxy.inflight_bytes.sending == 0


def test_answer_is_503_when_the_registry_is_away(broker: RunningBroker) -> None:
    with running_rest(broker.bootstrap_servers, **{"schema.registry.url": "http://127.0.0.1:1"}) as rest:
        assert rest.produce("t", [{"value": 1}], "avro", value_schema='"int"').status == 503


def test_formats_with_schemas_are_refused_when_there_is_no_registry(rest: Rest) -> None:
    assert rest.produce("t", [{"value": 1}], "avro", value_schema='"int"').code == 42205


def test_no_record_is_skipped_when_one_cannot_be_written_as_json(serving: Serving) -> None:
    """A lone surrogate passes Python's JSON reader, and no UTF-8 can hold it."""
    topic = serving.topic()
    good = {"id": 1, "more": "x"}
    schema_id = serving.rest.produce(topic, [{"value": good}], "jsonschema", value_schema=JSON_SCHEMA).json
    frame = b"\0" + int(schema_id["value_schema_id"]).to_bytes(4, "big")
    broken = frame + b'{"id": 2, "more": "\\ud800"}'
    produce(producer_of(serving.broker.bootstrap_servers), topic, [broken])
    path = serving.rest.instance(new_name("group"), format="jsonschema", **{"auto.commit.enable": "true"})
    serving.rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    assert [each["value"] for each in serving.rest.get(f"{path}/records?timeout=20000").json] == [good]
    for _ in range(2):
        refused = serving.rest.get(f"{path}/records?timeout=20000")
        assert (refused.code, f"{topic}-0, offset 1" in refused.json["message"]) == (42206, True)
    serving.rest.delete(path)
