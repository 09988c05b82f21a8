"""Topics that ask for the check of their schemas: what a producer meets, with confluent-kafka's serializers and with
bytes of any kind.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock
from penstock.client.connection import BlockingConnection
from penstock.core.config.keys.schemas import RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, build_batch
from tests.clients.support import PATIENCE_S, eventually, new_name, stored_batches
from tests.fake_registry import FakeRegistry, running_registry

VALUE, KEY = "confluent.value.schema.validation", "confluent.key.schema.validation"
VALUE_STRATEGY = "confluent.value.subject.name.strategy"
ORDER = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]})
_VERSION = 12


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture(scope="module")
def broker(registry: FakeRegistry) -> Iterator[penstock.Broker]:
    config = {"confluent.schema.registry.url": registry.url, "confluent.basic.auth.user.info": "broker:secret"}
    with penstock.Broker(config=config) as running:
        yield running


def new_topic(broker: penstock.Broker, **config: str) -> str:
    name = new_name("checked")
    broker.create_topic(name, config={key.replace("_", "."): value for key, value in config.items()})
    return name


def register(registry: FakeRegistry, subject: str, text: str = ORDER, kind: str = "AVRO") -> int:
    return int(registry.register(subject, query={}, body={"schema": text, "schemaType": kind})["id"])


def framed(schema_id: int, payload: bytes = b"\x02") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


def send(broker: penstock.Broker, topic: str, *records: Record, codec: int = Codec.NONE, acks: int = -1) -> Any:
    """The answer to one batch."""
    batch = build_batch([record._replace(timestamp=1) for record in records], codec=codec)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
    with BlockingConnection("127.0.0.1", broker.port) as connection:
        return connection.request(request, _VERSION).responses[0].partition_responses[0]


def code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def new_producer(broker: penstock.Broker, **more: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **more})


@pytest.mark.parametrize("is_in_header", [False, True])
def test_records_of_a_serializer_pass_when_it_registers_their_schemas(
    broker: penstock.Broker, registry: FakeRegistry, is_in_header: bool
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true", confluent_key_schema_validation="true")
    options: dict[str, Any] = {}
    if is_in_header:
        options = {"schema.id.serializer": header_schema_id_serializer, "auto.register.schemas": False}
        for side in ("key", "value"):
            register(registry, f"{topic}-{side}")
    delivered: list[Any] = []
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer = AvroSerializer(client, ORDER, conf=options)
        producer = new_producer(broker)
        for number in range(20):
            headers: list[tuple[str, Any]] = []
            key, value = (
                serializer({"id": number}, SerializationContext(topic, field, headers))
                for field in (MessageField.KEY, MessageField.VALUE)
            )
            producer.produce(topic, value, key, headers=headers, on_delivery=lambda error, _: delivered.append(error))
        producer.produce(topic, None, key, headers=headers, on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(PATIENCE_S) == 0
    assert delivered == [None] * 21
    assert "Basic YnJva2VyOnNlY3JldA==" in registry.authorizations


def test_producer_is_told_at_once_when_its_records_name_no_schema(broker: penstock.Broker) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true")
    delivered: list[Any] = []
    producer = new_producer(broker)
    producer.produce(topic, b"garbage", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert delivered[0].name() == "INVALID_RECORD"
    assert stored_batches(broker.bootstrap_servers, topic) == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_bad_records_are_named_when_others_of_their_batch_are_good(
    broker: penstock.Broker, registry: FakeRegistry, codec: Codec
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true")
    good, elsewhere = register(registry, f"{topic}-value"), register(registry, f"{topic}-key", '"string"')
    values = [framed(good), b"", framed(good), framed(elsewhere), framed(2**31), framed(9_999), None, b"\x01xxxx"]
    answer = send(broker, topic, *(Record(b"k", value) for value in values), codec=codec)
    assert code(answer) is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3, 4, 5, 7]
    assert all(error.batch_index_error_message for error in answer.record_errors)
    assert code(send(broker, topic, Record(b"garbage", framed(good)), codec=codec)) is ErrorCode.NONE


@pytest.mark.parametrize("is_bad_first", [True, False])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_nothing_is_appended_when_a_request_names_a_partition_twice_with_a_bad_batch(
    broker: penstock.Broker, registry: FakeRegistry, codec: Codec, is_bad_first: bool
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true")
    good = framed(register(registry, f"{topic}-value"))
    values = [b"bad", good] if is_bad_first else [good, b"bad"]
    rows = [
        PartitionProduceData(index=0, records=build_batch([Record(b"k", value, (), 1)], codec=codec))
        for value in values
    ]
    for data in (
        [TopicProduceData(name=topic, partition_data=rows)],
        [TopicProduceData(name=topic, partition_data=[row]) for row in rows],
    ):
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
        with BlockingConnection("127.0.0.1", broker.port) as connection:
            answer = connection.request(request, _VERSION)
        codes = [code(part) for each in answer.responses for part in each.partition_responses]
        assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert stored_batches(broker.bootstrap_servers, topic) == []


def test_many_records_are_checked_in_a_thread_when_a_batch_is_large(
    broker: penstock.Broker, registry: FakeRegistry
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true")
    good = register(registry, f"{topic}-value")
    records = [Record(b"k", framed(good, bytes(100)))] * 3_000
    assert code(send(broker, topic, *records)) is ErrorCode.NONE
    answer = send(broker, topic, *records, *[Record(b"k", b"bad")] * 3_000)
    assert (code(answer), answer.record_errors[0].batch_index) == (ErrorCode.INVALID_RECORD, 3_000)


def test_record_passes_when_its_schema_was_registered_a_moment_after_it_was_refused(
    broker: penstock.Broker, registry: FakeRegistry
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true")
    later = register(registry, "another", ORDER.replace("Order", new_name("Order").replace("-", "_")))
    assert code(send(broker, topic, Record(b"k", framed(later)))) is ErrorCode.INVALID_RECORD
    registry.subjects[f"{topic}-value"] = registry.subjects["another"]
    eventually(lambda: send(broker, topic, Record(b"k", framed(later))).error_code == 0, "the schema is found")


@pytest.mark.parametrize(
    ("strategy", "subject"), [(RECORD_NAME_STRATEGY, "shop.Order"), (TOPIC_RECORD_NAME_STRATEGY, "{}-shop.Order")]
)
def test_subject_is_that_of_the_strategy_when_the_topic_has_another(
    broker: penstock.Broker, registry: FakeRegistry, strategy: str, subject: str
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true", confluent_value_subject_name_strategy=strategy)
    text = ORDER.replace("long", "int") if strategy is RECORD_NAME_STRATEGY else ORDER.replace("long", "float")
    wrong = register(registry, f"{topic}-value", text)
    assert code(send(broker, topic, Record(b"k", framed(wrong)))) is ErrorCode.INVALID_RECORD
    right = register(registry, subject.format(topic), text.replace('"id"', '"other"'))
    assert code(send(broker, topic, Record(b"k", framed(right)))) is ErrorCode.NONE


def test_message_of_a_file_decides_when_the_strategy_asks_for_names_of_protobuf(
    broker: penstock.Broker, registry: FakeRegistry
) -> None:
    topic = new_topic(
        broker,
        confluent_value_schema_validation="true",
        confluent_value_subject_name_strategy=TOPIC_RECORD_NAME_STRATEGY,
    )
    text = 'syntax = "proto3"; package shop; message A { int32 x = 1; message In { } } message B { }'
    schema_id = register(registry, f"{topic}-shop.A.In", text, "PROTOBUF")
    inner, first, missing = b"\x04\x00\x00", b"\x00", b"\x02\x20"
    assert code(send(broker, topic, Record(b"k", framed(schema_id, inner)))) is ErrorCode.NONE
    for head in (first, missing, b""):
        assert code(send(broker, topic, Record(b"k", framed(schema_id, head)))) is ErrorCode.INVALID_RECORD


def test_settings_are_changed_and_described_when_an_administrator_asks(
    broker: penstock.Broker, registry: FakeRegistry
) -> None:
    topic = new_topic(broker)
    assert code(send(broker, topic, Record(b"k", b"garbage"))) is ErrorCode.NONE
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def change(name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([changed])[changed].result(PATIENCE_S)

    change(VALUE, "true")
    described = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert (described[VALUE].value, described[KEY].value) == ("true", "false")
    assert described[VALUE_STRATEGY].value == "io.confluent.kafka.serializers.subject.TopicNameStrategy"
    assert code(send(broker, topic, Record(b"k", b"garbage"))) is ErrorCode.INVALID_RECORD
    with pytest.raises(KafkaException, match="must be one of"):
        change(VALUE_STRATEGY, "com.example.Mine")
    change(VALUE, "false")
    assert code(send(broker, topic, Record(b"k", b"garbage"))) is ErrorCode.NONE
    node = next(ConfigResource(ResourceType.BROKER, str(each)) for each in admin.list_topics().brokers)
    settings = admin.describe_configs([node])[node].result(PATIENCE_S)
    assert settings["confluent.schema.registry.url"].value == registry.url
    assert settings["confluent.basic.auth.user.info"].value is None


def test_records_are_delivered_in_order_when_the_registry_comes_back(
    broker: penstock.Broker, registry: FakeRegistry
) -> None:
    topic = new_topic(broker, confluent_value_schema_validation="true")
    good = register(registry, f"{topic}-value", ORDER.replace("Order", "Later"))
    registry.failures = [503]
    refused = send(broker, topic, Record(b"k", framed(good)))
    assert code(refused) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "registry" in refused.error_message
    delivered: list[Any] = []
    producer = new_producer(broker, **{"enable.idempotence": True, "retry.backoff.ms": 50})
    for number in range(10):
        value = framed(good, bytes([number]))
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, at: delivered.append((error, at.offset()))
        )
        producer.poll(0.01)
    assert producer.flush(PATIENCE_S) == 0
    assert delivered == [(None, offset) for offset in range(10)]
    registry.failures.clear()
    # What is known stays known, whatever becomes of the registry.
    registry.failures = [None] * 3
    assert code(send(broker, topic, Record(b"k", framed(good)))) is ErrorCode.NONE
    registry.failures.clear()


def test_other_topics_are_served_when_the_registry_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with penstock.Broker(config={"confluent.schema.registry.url": f"http://127.0.0.1:{port}"}) as broker:
            checked, plain = new_topic(broker, confluent_value_schema_validation="true"), new_topic(broker)
            batch = build_batch([Record(b"k", framed(1), timestamp=1)])
            data = TopicProduceData(name=checked, partition_data=[PartitionProduceData(index=0, records=batch)])
            waiting = [BlockingConnection("127.0.0.1", broker.port) for _ in range(6)]
            asked = [
                each.send(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]), _VERSION) for each in waiting
            ]
            assert code(send(broker, plain, Record(b"k", b"anything"))) is ErrorCode.NONE
            assert code(send(broker, checked, Record(b"k", b"garbage"))) is ErrorCode.INVALID_RECORD
            for connection, number in zip(waiting, asked, strict=True):
                answer = connection.receive(number).responses[0].partition_responses[0]
                assert code(answer) is ErrorCode.NOT_ENOUGH_REPLICAS
                connection.close()


def _teller(told: list[Any]) -> Callable[[Any, Any], None]:
    return lambda error, _: told.append(error)


def test_records_are_checked_by_each_leader_when_there_are_several_brokers(registry: FakeRegistry) -> None:
    topic = new_name("replicated")
    good = register(registry, f"{topic}-value")
    config = {"confluent.schema.registry.url": registry.url}
    with penstock.Cluster(brokers=3, store="memory", config=config) as cluster:
        cluster.create_topic(topic, 6, 3, {VALUE: "true", "min.insync.replicas": "2"})
        delivered: dict[int, list[Any]] = {partition: [] for partition in range(6)}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
        for value in (framed(good), b"garbage"):
            for partition, told in delivered.items():
                producer.produce(topic, value, partition=partition, on_delivery=_teller(told))
            assert producer.flush(PATIENCE_S) == 0
    assert {len(told) for told in delivered.values()} == {2}
    assert [told[0] for told in delivered.values()] == [None] * 6
    assert {told[1].name() for told in delivered.values()} == {"INVALID_RECORD"}


def test_nothing_is_accepted_when_the_broker_knows_no_registry() -> None:
    with penstock.Broker() as without:
        topic = new_topic(without, confluent_value_schema_validation="true")
        answer = send(without, topic, Record(b"k", framed(1)))
        assert code(answer) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert "no schema registry is configured" in answer.error_message


def test_what_is_refused_and_what_nobody_answered_is_counted() -> None:
    with running_registry() as registry:
        config = {"confluent.schema.registry.url": registry.url}
        with penstock.Broker(config=config) as broker:
            topic = new_topic(broker, confluent_value_schema_validation="true")
            good = register(registry, f"{topic}-value")
            registry.failures = [503]
            assert code(send(broker, topic, Record(b"k", framed(good)))) is ErrorCode.NOT_ENOUGH_REPLICAS
            send(broker, topic, Record(b"k", b"garbage"), Record(b"k", None), Record(b"k", b""))
            counted = broker._broker.server.broker.metrics.schemas
            assert (counted.unchecked_batches, counted.failed_questions, counted.refused_records) == (1, 1, 2)
