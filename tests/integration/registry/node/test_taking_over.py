"""A topic as Confluent's registry writes it is taken over as it is, and what is written there can be handed back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

import penstock
from penstock.core.config.types import ConfigError
from penstock.http.service_process import ServiceError
from tests.clients.confluent import consumer_of, create_topic, producer_of
from tests.integration.registry.node.conftest import StartRegistry
from tests.integration.registry.node.rounds import ask

# Each key in the order in which Confluent's registry writes its fields.
SCHEMA = b'{"keytype":"SCHEMA","subject":"%s","version":%d,"magic":1}'
CONFIG = b'{"keytype":"CONFIG","subject":%s,"magic":0}'
DELETED = b'{"keytype":"DELETE_SUBJECT","subject":"%s","magic":0}'
NOOP = b'{"keytype":"NOOP","magic":0}'

Written = list[tuple[bytes, Any]]


def schema(subject: str, version: int, number: int, text: str, **more: object) -> tuple[bytes, Any]:
    value = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False, **more}
    return SCHEMA % (subject.encode(), version), value


def write(servers: str, topic: str, records: Written) -> None:
    producer = producer_of(servers)
    for key, value in records:
        text = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, text, key=key)
    assert producer.flush(30) == 0


def read(servers: str, topic: str) -> list[tuple[bytes, Any]]:
    """Everything that is committed, as Confluent's registry reads it: markers and keys without a value included."""
    found: list[tuple[bytes, Any]] = []
    with consumer_of(servers, enable_partition_eof=True, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                return found
            key, value = message.key(), message.value()
            assert key is not None
            found.append((key, None if value is None else json.loads(value)))


def port_of(registry: penstock.Registry) -> int:
    return int(registry.url.rpartition(":")[2])


def test_what_confluent_s_registry_wrote_is_served(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    servers = quick_broker.bootstrap_servers
    create_topic(servers, 1, {"cleanup.policy": "compact"}, topic)
    write(
        servers,
        topic,
        [
            (NOOP, None),
            (CONFIG % b"null", {"compatibilityLevel": "NONE"}),  # an old one, without its subject
            schema("a", 1, 1, '"string"'),
            schema("a", 2, 2, '"int"', md5="not looked at", schemaType="AVRO"),
            schema("b", 1, 1, '"string"'),
            schema("gone", 1, 7, '"long"'),
            (DELETED % b"gone", {"subject": "gone", "version": 1}),
            (b"not json", b"\xff\xff"),
            (b'{"keytype":"FUTURE","magic":9}', {"anything": 1}),
            schema("broken", 1, 8, "{"),
            (NOOP, None),
            schema("proto", 1, 9, 'syntax = "proto3"; message M { int32 f = 1; }', schemaType="PROTOBUF"),
        ],
    )
    port = port_of(start_registry())
    assert ask(port, "GET", "/subjects") == (200, ["a", "b", "broken", "proto"])
    assert ask(port, "GET", "/subjects/a/versions") == (200, [1, 2])
    assert ask(port, "GET", "/schemas/ids/1")[1]["schema"] == '"string"'
    assert ask(port, "GET", "/schemas/ids/7")[1]["schema"] == '"long"'  # soft-deleted: the id still resolves
    assert ask(port, "GET", "/config") == (200, {"compatibilityLevel": "NONE"})
    # Known content keeps its id, and new content gets one beyond all that were ever given.
    assert ask(port, "POST", "/subjects/c/versions", {"schema": '"int"'})[1]["id"] == 2
    assert ask(port, "POST", "/subjects/c/versions", {"schema": '"double"'})[1]["id"] == 10


def test_what_is_written_has_the_keys_and_fields_that_confluent_s_registry_reads(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    port = port_of(start_registry())
    text = '{"type":"record","name":"R","fields":[]}'
    assert ask(port, "POST", "/subjects/s/versions", {"schema": text})[0] == 200
    assert ask(port, "PUT", "/config/s", {"compatibility": "FULL"})[0] == 200
    assert ask(port, "PUT", "/config", {"compatibility": "NONE"})[0] == 200
    assert ask(port, "PUT", "/mode/s", {"mode": "READONLY"})[0] == 200
    assert ask(port, "DELETE", "/mode/s")[0] == 200
    assert ask(port, "DELETE", "/subjects/s/versions/1")[0] == 200
    assert ask(port, "DELETE", "/subjects/s/versions/1?permanent=true")[0] == 200
    found = read(quick_broker.bootstrap_servers, topic)
    keys = [key for key, _ in found]
    assert keys[:6] == [
        NOOP,
        SCHEMA % (b"s", 1),
        CONFIG % b'"s"',
        CONFIG % b"null",
        b'{"keytype":"MODE","subject":"s","magic":0}',
        b'{"keytype":"MODE","subject":"s","magic":0}',
    ]
    value = found[1][1]
    assert (value["subject"], value["version"], value["id"], value["schema"]) == ("s", 1, 1, text)
    assert value["deleted"] is False
    assert found[2][1]["compatibilityLevel"] == "FULL"
    assert found[4][1]["mode"] == "READONLY"
    assert found[5][1] is None
    schemas = [value for key, value in found if key == SCHEMA % (b"s", 1)]
    assert schemas[1]["deleted"] is True
    assert schemas[2] is None


def test_an_id_is_not_given_again_when_its_record_was_removed_and_compacted_away(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    registry = start_registry()
    port = port_of(registry)
    assert ask(port, "POST", "/subjects/s/versions", {"schema": '"string"'})[1]["id"] == 1
    assert ask(port, "POST", "/subjects/t/versions", {"schema": '"int"'})[1]["id"] == 2
    assert ask(port, "DELETE", "/subjects/t")[0] == 200
    assert ask(port, "DELETE", "/subjects/t?permanent=true")[0] == 200
    registry.stop()
    # What the cleaner leaves of the topic, in another one.
    kept = {key: value for key, value in read(quick_broker.bootstrap_servers, topic) if value is not None}
    compacted = create_topic(quick_broker.bootstrap_servers, 1, {"cleanup.policy": "compact"}, f"{topic}_compacted")
    write(quick_broker.bootstrap_servers, compacted, list(kept.items()))
    port = port_of(start_registry(kafkastore__topic=compacted))
    assert ask(port, "POST", "/subjects/u/versions", {"schema": '"long"'})[1]["id"] == 3


@pytest.mark.parametrize(
    ("partitions", "policy", "words"),
    [(2, "compact", "2 partitions"), (1, "delete", "cleanup.policy=delete"), (1, "compact,delete", "schemas would be")],
)
def test_a_topic_that_would_lose_schemas_is_refused(
    quick_broker: penstock.Broker,
    topic: str,
    start_registry: StartRegistry,
    partitions: int,
    policy: str,
    words: str,
) -> None:
    create_topic(quick_broker.bootstrap_servers, partitions, {"cleanup.policy": policy}, topic)
    with pytest.raises(ServiceError, match=words):
        start_registry()


def test_a_setting_that_nobody_knows_is_refused(start_registry: StartRegistry) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        start_registry(kafkastore__topics="x", schema__compatibility__levels="none")
