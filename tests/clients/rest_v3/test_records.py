"""Records by v3: one by one, in small batches, and as streams that curl keeps open."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.clients.conftest import RunningBroker
from tests.clients.rest_v3.talking import V3, run_proxy

WAIT_S = 30


def _read(broker: RunningBroker, topic: str, count: int, partition: int = 0) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": uuid.uuid4().hex})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Message] = []
        while len(found) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{len(found)} of {count} records came"
            assert message.error() is None
            found.append(message)
        return found
    finally:
        consumer.close()


def _objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _produce(v3: V3, topic: str, body: Any) -> dict[str, Any]:
    answer = v3.ask("POST", f"/topics/{topic}/records", body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_a_record_has_all_that_was_asked_for(v3: V3, broker: RunningBroker) -> None:
    topic = v3.make_topic("v3-record", partitions_count=2)
    told = _produce(
        v3,
        topic,
        {
            "partition_id": 1,
            "headers": [{"name": "a", "value": base64.b64encode(b"one").decode()}, {"name": "b"}],
            "key": {"type": "BINARY", "data": base64.b64encode(b"\x00\xff").decode()},
            "value": {"type": "JSON", "data": {"b": [1.50, None], "a": "ä"}},
            "timestamp": "2021-02-05T19:14:42.123Z",
        },
    )
    assert told == {
        "error_code": 200,
        "cluster_id": v3.cluster_id,
        "topic_name": topic,
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42.123Z",
        "key": {"type": "BINARY", "size": 2},
        "value": {"type": "JSON", "size": len('{"b":[1.5,null],"a":"\\u00e4"}')},
    }
    (record,) = _read(broker, topic, 1, partition=1)
    assert (record.key(), json.loads(record.value() or b"")) == (b"\x00\xff", {"b": [1.5, None], "a": "ä"})
    assert record.headers() == [("a", b"one"), ("b", None)]
    assert record.timestamp()[1] == 1612552482123


def test_texts_nulls_and_nothing_are_written_as_such(v3: V3, broker: RunningBroker) -> None:
    topic = v3.make_topic("v3-nulls")
    bodies: list[dict[str, Any]] = [
        {"key": {"type": "STRING", "data": "ä"}, "value": {"type": "STRING", "data": ""}},
        {"key": {"type": "JSON", "data": None}, "value": {"type": "BINARY", "data": None}},
        {},
    ]
    for offset, body in enumerate(bodies):
        assert _produce(v3, topic, body)["offset"] == offset
    found = _read(broker, topic, 3)
    assert [(each.key(), each.value()) for each in found] == [("ä".encode(), b""), (None, None), (None, None)]


def test_a_key_goes_where_javas_clients_send_it(v3: V3) -> None:
    topic = v3.make_topic("v3-keys", partitions_count=12)
    told = [_produce(v3, topic, {"key": {"type": "STRING", "data": f"key-{each}"}}) for each in range(5)]
    # murmur2 of Java's DefaultPartitioner for twelve partitions
    assert [each["partition_id"] for each in told] == _java_partitions()


def _java_partitions() -> list[int]:
    from kafka.partitioner.default import murmur2  # another implementation than ours

    return [(murmur2(f"key-{each}".encode()) & 0x7FFFFFFF) % 12 for each in range(5)]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"value": {"type": "BINARY", "data": 1}}, 400),
        ({"value": {"type": "BINARY", "data": "no base64"}}, 400),
        ({"value": {"type": "STRING", "data": {}}}, 400),
        ({"value": {"type": "SONG", "data": ""}}, 400),
        ({"value": {"type": "AVRO", "schema": '"string"', "data": "x"}}, 42205),
        ({"value": {"data": "x"}}, 42205),
        ({"partition_id": 7}, 40402),
        ({"partition_id": -1}, 40402),
        ({"partition_id": "x"}, 400),
        ({"headers": [{"name": "a", "value": "%"}]}, 400),
        ({"timestamp": "yesterday"}, 400),
        ({"timestamp": "1969-12-31T23:59:59Z"}, 400),
        ([], 400),
        ({"value": {"type": "STRING", "data": "x" * 40_000}}, 413),
    ],
)
def test_a_record_has_its_own_code_when_it_does_not_fit(v3: V3, body: Any, code: int) -> None:
    topic = v3.make_topic("v3-unfit", configs=[{"name": "max.message.bytes", "value": "10000"}])
    assert _produce(v3, topic, body)["error_code"] == code


@pytest.mark.parametrize(
    "body",
    [
        b'{"value":{"type":"STRING","data":"\xff"}}',
        b'{"value":{"type":"JSON","data":"\xff"}}',
        b'{"value":{"type":"STRING","data":"\\ud800"}}',
        b'{"value":{"type":"BINARY","data":"\xff"}}',
        b'{"headers":[{"name":"\xff"}]}',
        b'{"value":{"type":"JSON","data":' + b"[" * 30_000 + b"]" * 30_000 + b"}}",
        b'{"x":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
        *(b'{"value":{"type":"JSON","data":' + b"[" * deep + b"]" * deep + b"}}" for deep in range(600, 1_000, 40)),
    ],
)
def test_a_hostile_record_is_refused_or_written_and_never_a_failure(v3: V3, body: bytes) -> None:
    answer = v3.ask("POST", "/topics/v3-hostile/records", data=body)
    assert answer.status_code == 200
    assert answer.json()["error_code"] in (200, 400)


def test_requests_are_refused_as_a_whole_when_nothing_can_be_read(v3: V3) -> None:
    path = f"/topics/{v3.make_topic('v3-empty')}/records"
    assert v3.refused("POST", path, data=b"") == (422, 42206)
    assert v3.refused("POST", path, data=b"{}", headers={"content-type": "text/plain"}) == (415, 415)
    assert v3.refused("POST", f"{path}:batch", data=b"") == (422, 42208)
    assert _produce(v3, "v3 no topic", {})["error_code"] in (40002, 40401)


def test_several_records_of_one_body_are_one_batch_with_an_answer_each(v3: V3, broker: RunningBroker) -> None:
    topic = v3.make_topic("v3-several")
    body = _value("0") + '{"value":{"type":"STRING","data":7}}\n' + _value("2")
    answer = v3.ask("POST", f"/topics/{topic}/records", data=body.encode())
    told = _objects(answer.text)
    assert [(each["error_code"], each.get("offset")) for each in told] == [(200, 0), (400, None), (200, 1)]
    assert [each.value() for each in _read(broker, topic, 2)] == [b"0", b"2"]


def test_good_records_are_written_when_a_broker_refuses_one_of_their_batch(v3: V3) -> None:
    topic = v3.make_topic("v3-large-one", configs=[{"name": "max.message.bytes", "value": "1000"}])
    bodies = [{"value": {"type": "STRING", "data": "x" * size}} for size in (10, 2000, 20)]
    answer = v3.ask("POST", f"/topics/{topic}/records", data="".join(map(json.dumps, bodies)).encode())
    assert [each["error_code"] for each in _objects(answer.text)] == [200, 413, 200]


def test_what_follows_is_not_read_when_a_document_is_no_json(v3: V3) -> None:
    topic = v3.make_topic("v3-broken")
    answer = v3.ask("POST", f"/topics/{topic}/records", data=b'{} {"value": nothing} {}')
    assert [each["error_code"] for each in _objects(answer.text)] == [200, 400]
    assert v3.get(f"/topics/{topic}/partitions/0/offset")["latest_offset"] == 1


def test_a_batch_tells_which_of_its_records_were_written(v3: V3, broker: RunningBroker) -> None:
    topic = v3.make_topic("v3-batch")
    entries = [
        {"id": "a", "value": {"type": "STRING", "data": "A"}},
        {"id": "b", "value": {"type": "BINARY", "data": 1}},
        {"id": "c", "value": {"type": "JSON", "data": {}}, "partition_id": 3},
        {"id": "d", "key": {"type": "STRING", "data": "D"}},
    ]
    answer = v3.ask("POST", f"/topics/{topic}/records:batch", {"entries": entries})
    assert answer.status_code == 207
    told = answer.json()
    assert [(each["id"], each["offset"]) for each in told["successes"]] == [("a", 0), ("d", 1)]
    assert [(each["id"], each["error_code"]) for each in told["failures"]] == [("b", 400), ("c", 40402)]
    assert told["successes"][0]["value"] == {"type": "STRING", "size": 1}
    assert [each.value() for each in _read(broker, topic, 2)] == [b"A", None]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"id": str(each)} for each in range(11)],
        [{"id": "a"}, {"id": "a"}],
        [{"id": ""}],
        [{"id": "a b"}],
        [{"id": 1}],
        [{}],
    ],
)
def test_a_batch_is_refused_when_its_ids_or_its_size_are_wrong(v3: V3, entries: list[dict[str, Any]]) -> None:
    assert v3.refused("POST", "/topics/any/records:batch", {"entries": entries}) == (422, 42208)


# ------------------------------------------------------------------------------------------------ streams


class _Curl:
    """curl with its input open: what is written goes out as chunks, and answers are read line by line. (`-T .` is what
    makes curl read and write at the same time; `-T -` waits for its input.)
    """

    def __init__(self, url: str) -> None:
        command = [
            "curl",
            "-sSN",
            "-T",
            ".",
            "-X",
            "POST",
            "-H",
            "Expect:",
            "-H",
            "Content-Type: application/json",
            url,
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def send(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def end(self) -> list[dict[str, Any]]:
        out, errors = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, errors
        return _objects(out.decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait(WAIT_S)


def _value(text: str) -> str:
    return json.dumps({"value": {"type": "STRING", "data": text}})


def test_each_record_of_a_stream_is_answered_before_the_next_one_is_sent(v3: V3, broker: RunningBroker) -> None:
    topic = v3.make_topic("v3-stream")
    with _Curl(f"{v3.url}/topics/{topic}/records") as curl:
        for number in range(3):
            curl.send(_value(str(number)) + "\n")
            assert curl.next()["offset"] == number
        curl.send('{"partition_id": 9}')
        assert curl.next()["error_code"] == 40402
        curl.send(_value("half")[:12])
        curl.send(_value("half")[12:])
        assert curl.next()["offset"] == 3
        assert curl.end() == []
    assert [each.value() for each in _read(broker, topic, 4)] == [b"0", b"1", b"2", b"half"]


def test_a_long_stream_is_answered_in_its_order(v3: V3, broker: RunningBroker) -> None:
    topic = v3.make_topic("v3-long-stream")
    with _Curl(f"{v3.url}/topics/{topic}/records") as curl:
        out, errors = curl.process.communicate("".join(map(_value, map(str, range(5_000)))).encode(), timeout=WAIT_S)
        assert curl.process.returncode == 0, errors
    assert [each["offset"] for each in _objects(out.decode())] == list(range(5_000))
    found = _read(broker, topic, 5_000)
    assert [int(each.value() or b"") for each in found] == list(range(5_000))


def test_a_stream_is_written_in_its_order_when_a_broker_refuses_some_of_its_records(
    v3: V3, broker: RunningBroker
) -> None:
    topic = v3.make_topic(
        "v3-refused-in-stream", partitions_count=2, configs=[{"name": "max.message.bytes", "value": "20000"}]
    )
    sent = [f"{each:05d}" if each % 400 else "x" * 25_000 for each in range(2_000)]
    bodies = [
        json.dumps({"partition_id": each % 7 % 2, "value": {"type": "STRING", "data": text}})
        for each, text in enumerate(sent)
    ]
    with _Curl(f"{v3.url}/topics/{topic}/records") as curl:
        out, errors = curl.process.communicate("".join(bodies).encode(), timeout=WAIT_S)
        assert curl.process.returncode == 0, errors
    told = _objects(out.decode())
    assert [each["error_code"] == 200 for each in told] == [each % 400 != 0 for each in range(2_000)]
    for partition in (0, 1):
        good = [text for each, text in enumerate(sent) if each % 400 and each % 7 % 2 == partition]
        offsets = [each["offset"] for each in told if each.get("partition_id") == partition]
        assert offsets == list(range(len(good)))
        assert [(each.value() or b"").decode() for each in _read(broker, topic, len(good), partition)] == good


@pytest.mark.parametrize(
    ("sent", "code"), [("17", 400), ('{"value"', 400), ('{"value": nothing}', 400), (f'{{"a":"{"x" * 300_000}', 413)]
)
def test_a_stream_ends_with_an_answer_when_it_cannot_be_read(tight: V3, sent: str, code: int) -> None:
    topic = tight.make_topic("v3-unreadable")
    with _Curl(f"{tight.url}/topics/{topic}/records") as curl:
        curl.send("{}")
        assert curl.next()["error_code"] == 200
        curl.send(sent)
        if sent == '{"value"':
            assert curl.process.stdin is not None
            curl.process.stdin.close()
        assert curl.next()["error_code"] == code


@pytest.fixture(scope="module")
def tight(broker: RunningBroker) -> Iterator[V3]:
    """A proxy that has little patience and little room."""
    with run_proxy(
        broker.bootstrap_servers, penstock_rest_stream_idle_ms="300", penstock_rest_max_body_bytes="200000"
    ) as proxy:
        yield proxy


def test_a_stream_ends_when_nothing_comes(tight: V3) -> None:
    topic = tight.make_topic("v3-idle")
    with _Curl(f"{tight.url}/topics/{topic}/records") as curl:
        curl.send("{} {")
        assert curl.next()["error_code"] == 200
        assert curl.next()["error_code"] == 408
        assert curl.process.stdout is not None
        assert curl.process.stdout.read() == b""


def test_a_stream_ends_after_its_longest_time(broker: RunningBroker) -> None:
    with run_proxy(broker.bootstrap_servers, streaming_connection_max_duration_ms="400") as proxy:
        topic = proxy.make_topic("v3-longest")
        with _Curl(f"{proxy.url}/topics/{topic}/records") as curl:
            codes: list[int] = []
            while not codes or codes[-1] == 200:
                with contextlib.suppress(BrokenPipeError):  # the stream has ended between two records
                    curl.send("{}")
                codes.append(curl.next()["error_code"])
        assert codes[-1] == 408


def test_records_and_requests_are_refused_when_a_caller_asks_too_much(broker: RunningBroker) -> None:
    with run_proxy(
        broker.bootstrap_servers,
        api_v3_produce_rate_limit_enabled="true",
        api_v3_produce_rate_limit_max_requests_per_sec="5",
    ) as proxy:
        topic = proxy.make_topic("v3-limited")
        answer = proxy.ask("POST", f"/topics/{topic}/records", data=b"{}" * 20)
        codes = [each["error_code"] for each in _objects(answer.text)]
        assert codes[:5] == [200] * 5
        assert codes[-1] == 42901
    with run_proxy(broker.bootstrap_servers, rate_limit_enable="true", rate_limit_permits_per_sec="2") as proxy:
        answers = [proxy.ask("GET", "/topics") for _ in range(30)]
        refused = [each for each in answers if each.status_code == 429]
        assert refused
        assert refused[0].json()["error_code"] == 42901


def test_a_stream_asks_for_its_body_when_the_client_waits_for_that(v3: V3) -> None:
    topic = v3.make_topic("v3-expect")
    url = urlsplit(f"{v3.url}/topics/{topic}/records")
    head = f"POST {url.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    record = b'{"value":{"type":"STRING","data":"x"}}'
    with socket.create_connection((url.hostname or "", url.port or 0), 30) as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        answers = connection.makefile("rb")
        assert answers.readline().startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(record), record))
        while b'"error_code":200' not in (line := answers.readline()):
            assert line, "the stream has an answer for its record"
