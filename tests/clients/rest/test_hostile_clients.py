"""Clients that are slow, leave early or send too much: others are served, and nothing of them stays."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from penstock import Broker
from tests.clients.confluent import create_topic
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest, embedded, running_rest
from tests.clients.support import eventually, new_name


@pytest.fixture(scope="module")
def small(broker: RunningBroker) -> Iterator[Rest]:
    settings = {"penstock.rest.max.body.bytes": "300000", "penstock.rest.max.inflight.bytes": "600000"}
    with running_rest(broker.bootstrap_servers, **settings) as rest:
        yield rest


@contextlib.contextmanager
def connected(rest: Rest) -> Iterator[socket.socket]:
    host, _, port = urlsplit(rest.url).netloc.partition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        yield connection


def begin(topic: str, size: int) -> bytes:
    lines = (
        f"POST /topics/{topic} HTTP/1.1",
        "Host: x",
        f"Content-Type: {embedded('json')}",
        f"Content-Length: {size}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def test_body_is_refused_when_it_is_larger_than_allowed(small: Rest) -> None:
    assert small.post("/topics/t", b"x" * 300_001, embedded("json")).status == 413
    with connected(small) as connection:
        head = begin("t", 1).replace(b"Content-Length: 1", b"Transfer-Encoding: chunked")
        connection.sendall(head)
        with contextlib.suppress(OSError):
            for _ in range(10):
                connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        assert b" 413 " in connection.recv(4096).split(b"\r\n")[0]


def test_others_are_told_to_come_later_when_half_bodies_fill_the_room(small: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    assert small.server is not None
    inflight_bytes = small.server.proxy.inflight_bytes
    body = b'{"records": [{"value": "' + b"x" * 250_000 + b'"}]}'
    with connected(small) as first, connected(small) as second:
        for connection in (first, second):
            connection.sendall(begin(topic, len(body)) + body[:-1])
        eventually(lambda: inflight_bytes.reading >= 2 * len(body) - 2, "both bodies are being read")
        refused = small.post(f"/topics/{topic}", body, embedded("json"))
        assert (refused.status, refused.code) == (429, 42901)
        assert small.produce(topic, [{"value": 1}]).status == 200  # small ones are served
        first.sendall(body[-1:])
        assert b" 200 " in first.recv(4096).split(b"\r\n")[0]
    eventually(lambda: inflight_bytes.reading == 0, "nothing stays of clients that are gone")
    assert small.post(f"/topics/{topic}", body, embedded("json")).status == 200


def test_instance_goes_on_when_a_client_leaves_in_the_middle_of_a_long_poll(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    path = rest.instance(new_name("group"), format="json")
    rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    with connected(rest) as connection:
        connection.sendall(f"GET {path}/records?timeout=400 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    rest.produce(topic, [{"value": "late"}])
    values: list[str] = []

    def look() -> bool:
        values.extend(each["value"] for each in rest.get(f"{path}/records?timeout=1000").json)
        rest.post(f"{path}/positions/beginning", {"partitions": [{"topic": topic, "partition": 0}]})
        return bool(values)

    eventually(look, "the record")
    rest.delete(path)


def test_deletion_ends_a_long_poll_when_one_is_under_way(rest: Rest, broker: RunningBroker) -> None:
    topic = create_topic(broker.bootstrap_servers)
    path = rest.instance(new_name("group"), format="json")
    rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    with connected(rest) as connection:
        connection.sendall(f"GET {path}/records?timeout=60000 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        eventually(lambda: rest.get(f"{path}/assignments").json["partitions"], "the instance")
        assert rest.delete(path).status == 204
        assert b" 404 " in connection.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize("path", ["/topics", "/v3/clusters", "/topics/t/partitions/0/offsets"])
def test_brokers_that_are_away_are_told_as_503_when_nobody_can_be_reached(path: str) -> None:
    with running_rest("127.0.0.1:1", client_default_api_timeout_ms="100") as rest:
        answer = rest.get(path)
        assert (answer.status, answer.code) == (503, 50302)


def test_records_are_refused_with_503_when_nobody_can_be_reached() -> None:
    with running_rest("127.0.0.1:1", client_default_api_timeout_ms="100") as rest:
        answer = rest.produce("t", [{"value": 1}])
        assert (answer.status, answer.code) == (503, 50302)


def test_record_has_an_error_of_its_own_when_the_broker_goes_away() -> None:
    with (
        Broker() as away,
        running_rest(
            away.bootstrap_servers, client_default_api_timeout_ms="3000", producer_delivery_timeout_ms="300"
        ) as rest,
    ):
        path = f"/v3/clusters/{rest.get('/v3/clusters').json['data'][0]['cluster_id']}/topics/t/records"
        assert rest.post(path, {}, "application/json").code == 200
        away.stop()
        assert rest.post(path, {}, "application/json").code in (50003, 50302)
