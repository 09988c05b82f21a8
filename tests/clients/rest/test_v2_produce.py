"""Records written over HTTP, read by confluent-kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.clients.confluent import create_topic
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest, b64, embedded
from tests.clients.support import PATIENCE_S, new_name, stored_batches


def read(broker: RunningBroker, topic: str, count: int, partition: int = 0) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": new_name("read"), "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        return consumer.consume(count, PATIENCE_S)
    finally:
        consumer.close()


def test_records_of_one_call_are_one_batch_when_they_go_to_one_partition(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    records = [{"key": b64(b"k"), "value": b64(bytes([each]))} for each in range(50)]
    answer = rest.produce(topic, records, "binary")
    assert answer.status == 200
    offsets = [{"partition": 0, "offset": each, "error_code": None, "error": None} for each in range(50)]
    assert answer.json == {"offsets": offsets, "key_schema_id": None, "value_schema_id": None}
    assert [(each.key(), each.value()) for each in read(broker, topic, 50)] == [(b"k", bytes([n])) for n in range(50)]
    assert len(stored_batches(broker.bootstrap_servers, topic)) == 1


def test_json_is_written_compactly_and_null_is_a_tombstone_when_the_format_is_json(
    rest: Rest, broker: RunningBroker
) -> None:
    topic = create_topic(broker.bootstrap_servers)
    body = (
        b'{"records": [{"key": "a", "value": { "n" : [1, 2.50, "\\u00e9 x"] } }, {"key": {"b":1}, "value": null}, {}]}'
    )
    assert rest.post(f"/topics/{topic}", body, embedded("json")).status == 200
    found = [(each.key(), each.value()) for each in read(broker, topic, 3)]
    assert found[0][0] == b'"a"'
    assert found[0][1] in ('{"n":[1,2.50,"\u00e9 x"]}'.encode(), b'{"n":[1,2.50,"\\u00e9 x"]}')
    assert found[1:] == [(b'{"b":1}', None), (None, None)]


def test_keys_choose_partitions_as_java_does_when_none_is_named(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers, partitions=4)
    keys = [b"a", b"b", b"c", b"order-1", b"order-2", b"\x00"]
    answer = rest.produce(topic, [{"key": b64(key), "value": b64(b"v")} for key in keys], "binary")
    # murmur2 of Java's clients, which confluent-kafka has as `murmur2_random`
    assert [each["partition"] for each in answer.json["offsets"]] == java_partitions(broker, keys)


def java_partitions(broker: RunningBroker, keys: list[bytes]) -> list[int]:
    from tests.clients.confluent import produce, producer_of

    topic = create_topic(broker.bootstrap_servers, partitions=4)
    producer = producer_of(broker.bootstrap_servers, partitioner="murmur2_random")
    return [int(produce(producer, topic, [b"v"], key=key)[0].partition() or 0) for key in keys]


def test_records_without_keys_share_a_partition_when_they_come_in_one_call(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers, partitions=4)
    chosen = []
    for _ in range(4):
        offsets = rest.produce(topic, [{"value": 1}, {"value": 2}]).json["offsets"]
        assert offsets[0]["partition"] == offsets[1]["partition"]
        chosen.append(offsets[0]["partition"])
    assert sorted(chosen) == [0, 1, 2, 3]


def test_named_partitions_count_when_records_or_the_path_name_them(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers, partitions=3)
    for form, value in (("json", 1), ("binary", "aGk=")):
        answer = rest.produce(topic, [{"value": value, "partition": 2}, {"value": value, "partition": "0"}], form)
        assert [each["partition"] for each in answer.json["offsets"]] == [2, 0]
    answer = rest.post(f"/topics/{topic}/partitions/1", {"records": [{"value": 1}]}, embedded("json"))
    assert answer.json["offsets"][0]["partition"] == 1
    assert rest.produce(topic, [{"value": 1}, {"value": 1, "partition": 3}]).code == 40402
    assert rest.post(f"/topics/{topic}/partitions/3", {"records": [{"value": 1}]}, embedded("json")).code == 40402


def test_refused_records_have_their_errors_in_the_answer_when_others_are_written(
    rest: Rest, broker: RunningBroker
) -> None:
    topic = create_topic(broker.bootstrap_servers, partitions=2, config={"max.message.bytes": "2000"})
    answer = rest.produce(topic, [{"value": "x" * 5_000, "partition": 0}, {"value": "y", "partition": 1}])
    assert answer.status == 200
    refused, written = answer.json["offsets"]
    assert refused["error_code"] == 50002
    assert "max.message.bytes" in refused["error"]
    assert (written["partition"], written["offset"], written["error_code"]) == (1, 0, None)


@pytest.mark.parametrize(
    ("body", "form", "status", "code"),
    [
        (b"{", "json", 400, 400),
        (b"", "json", 400, 400),
        (b"[]", "json", 422, 422),
        (b"{}", "json", 422, 422),
        (b'{"records": []}', "json", 422, 422),
        (b'{"records": [1]}', "json", 422, 422),
        (b'{"records": [{"value": 1, "partition": -1}]}', "json", 422, 422),
        (b'{"records": [{"value": 1, "partition": "x"}]}', "json", 422, 422),
        (b'{"records": [{"value": 1, "partition": 99999999999}]}', "json", 422, 422),
        (b'{"records": [{"value": {"not": "base64"}}]}', "binary", 422, 42206),
        (b'{"records": [{"key": "?", "value": "aGk="}]}', "binary", 422, 42206),
        (b'{"records": [{"value": 1}]', "json", 400, 400),
        (b"[" * 100_000, "json", 400, 400),
        (b'{"records": [{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", "json", 400, 400),
        (b'{"records": [{"value": "\xff\xfe"}]}', "json", 400, 400),
        (b'{"records": [{"value": "\xff\xfe"}]}', "binary", 422, 42206),
        (b'{"value_schema": "\xff", "records": [{"value": 1}]}', "avro", 400, 400),
        (b'{"records": [{"value": "\\ud800"}]}', "json", 400, 400),
        (b'{"records": [{"value": NaN}]}', "json", 400, 400),
        (b'{"records": [{"value": 1}]}', "avro", 422, 42202),
        (b'{"records": [{"value": null, "key": 1}]}', "protobuf", 422, 42201),
    ],
)
def test_body_is_refused_with_a_code_when_it_is_hostile_or_wrong(
    rest: Rest, broker: RunningBroker, body: bytes, form: str, status: int, code: int
) -> None:
    topic = "refused-bodies"
    answer = rest.post(f"/topics/{topic}", body, embedded(form))
    assert (answer.status, answer.code) == (status, code), answer


def test_body_is_refused_when_its_type_is_unknown(rest: Rest) -> None:
    for content_type in ("text/plain", "application/vnd.kafka.xml.v2+json", "application/vnd.kafka.json.v1+json", "x"):
        assert rest.post("/topics/t", b"{}", content_type).status == 415, content_type


def test_topic_is_not_found_when_brokers_refuse_its_name(rest: Rest) -> None:
    assert rest.produce("a%2Fb", [{"value": 1}]).code in (40002, 40401)
    assert rest.produce("x" * 300, [{"value": 1}]).code in (40002, 40401)


@pytest.mark.parametrize("form", ["json", "binary", "avro"])
def test_request_is_refused_when_it_has_too_many_records(rest: Rest, form: str) -> None:
    body = b'{"records":[' + b",".join([b"{}"] * 100_001) + b"]}"
    answer = rest.post("/topics/never-written", body, embedded(form))
    assert (answer.status, answer.code) == (413, 413), answer.body[:200]
    assert "at most 100000 records" in answer.json["message"]


def test_many_small_records_are_written_when_they_have_keys(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers, partitions=2)
    answer = rest.produce(topic, [{"key": each, "value": {"a": {}}} for each in range(3_000)])
    assert answer.status == 200
    offsets = [(each["partition"], each["offset"]) for each in answer.json["offsets"]]
    for partition in (0, 1):
        found = [offset for each, offset in offsets if each == partition]
        assert found == list(range(len(found)))
    assert len(offsets) == 3_000


def test_answer_stays_small_when_all_of_many_records_are_refused(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    answer = rest.produce(topic, [{"value": "x" * 140}] * 50_000)
    assert {each["error_code"] for each in answer.json["offsets"]} == {50002}
    assert len(answer.json["offsets"][0]["error"]) > len(answer.json["offsets"][-1]["error"]) > 0
    assert len(answer.body) < 50_000 * 100
