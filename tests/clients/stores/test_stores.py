"""Stores over HTTP: changelogs written by confluent-kafka, questions by a plain HTTP client."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from confluent_kafka import TopicPartition

from penstock.streams.stores.client import OneStore, StoreClient, StoreError, open_store
from tests.clients.conftest import RunningBroker
from tests.clients.stores.talking import Changelogs, Stores, running_stores
from tests.clients.support import eventually


class Scene:
    def __init__(self, changelogs: Changelogs, url: str) -> None:
        self.changelogs = changelogs
        self.http = Stores(url)
        self.url = url


def window(key: str, start: int) -> str:
    return json.dumps({"key": key, "start": start, "end": start + 60_000})


@pytest.fixture(scope="module")
def scene(broker: RunningBroker) -> Iterator[Scene]:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("counts", partitions=3)
    changelogs.create("per-minute")
    changelogs.create("numbers")
    changelogs.write("counts", {f"k{number:03d}": {"count": number} for number in range(50)})
    changelogs.write("counts", {"k000": None, "a/b c": {"count": 7}, "é": {"count": 8}, "k001": {"count": 100}})
    changelogs.write("per-minute", {window(key, at * 60_000): at for key in ("DE", "FR") for at in range(5)})
    changelogs.write("numbers", {number: str(number) for number in (100, 9, -3, 20)}, timestamp=1_234_567)
    with running_stores(changelogs.application, broker.bootstrap_servers) as server:
        yield Scene(changelogs, server.url)


def test_stores_are_listed_when_they_were_read(scene: Scene) -> None:
    answer = scene.http.get("/stores").json
    assert answer["application"] == scene.changelogs.application
    shown = {each["name"]: (each["state"], each["rows"], each["lag"]) for each in answer["stores"]}
    assert shown["counts"] == ("ready", 51, 0)
    assert shown["per-minute"] == ("ready", 10, 0)
    assert scene.http.get("/health") == (200, {"status": "ready"})


def test_a_row_is_answered_with_its_offsets_when_its_key_is_there(scene: Scene) -> None:
    status, row = scene.http.get("/stores/counts/keys/k007")
    assert (status, row["key"], row["value"]) == (200, "k007", {"count": 7})
    assert sum(row["position"].values()) == 54
    assert row["offset"] < row["position"][str(row["partition"])]
    assert scene.http.get("/stores/numbers/keys/-3").json["timestamp"] == 1_234_567


@pytest.mark.parametrize(
    ("path", "value"),
    [("a%2Fb%20c", {"count": 7}), ("%C3%A9", {"count": 8}), ("%22k007%22", {"count": 7}), ("k001", {"count": 100})],
)
def test_a_row_is_found_when_its_key_has_unusual_characters(scene: Scene, path: str, value: object) -> None:
    assert scene.http.value("counts", path) == value


def test_nothing_is_found_when_the_key_was_deleted_or_never_there(scene: Scene) -> None:
    for key in ("k000", "never", "x" * 7_000):
        status, body = scene.http.get(f"/stores/counts/keys/{key}")
        assert (status, sum(body["position"].values())) == (404, 54)
    assert scene.http.get("/stores/none/keys/x").status == 404


def test_ranges_come_in_pages_when_they_are_long(scene: Scene) -> None:
    first = scene.http.get("/stores/counts/keys?from=k010&to=k014&limit=3").json
    rest = scene.http.get(f"/stores/counts/keys?from=k010&to=k014&limit=3&after={first['next']}").json
    assert [row["key"] for row in (*first["rows"], *rest["rows"])] == ["k010", "k011", "k012", "k013", "k014"]
    assert rest["next"] is None
    assert [row["key"] for row in scene.http.get("/stores/counts/keys?prefix=k04&limit=2").json["rows"]] == [
        "k040",
        "k041",
    ]
    numbers = scene.http.get("/stores/numbers/keys?from=0&to=20").json
    assert [row["key"] for row in numbers["rows"]] == [9, 20]


def test_windows_are_found_by_key_and_time_when_keys_are_windowed(scene: Scene) -> None:
    answer = scene.http.get("/stores/per-minute/windows/DE?from=60000&to=1970-01-01T00:02:00Z").json
    assert [(each["start"], each["end"], each["value"]) for each in answer["windows"]] == [
        (60_000, 120_000, 1),
        (120_000, 180_000, 2),
    ]
    both = scene.http.get("/stores/per-minute/windows?from=240000").json["windows"]
    assert [(each["key"], each["start"]) for each in both] == [("DE", 240_000), ("FR", 240_000)]
    assert scene.http.get("/stores/per-minute/windows/XX").json["windows"] == []


def test_several_keys_are_answered_in_their_order_when_one_request_asks(scene: Scene) -> None:
    body = {"keys": ["k002", "never", "k001"]}
    rows = scene.http.post("/stores/counts/keys", body).json["rows"]
    assert [row and row["value"] for row in rows] == [{"count": 2}, None, {"count": 100}]


def test_an_answer_waits_for_a_write_when_min_position_says_so(scene: Scene) -> None:
    for end, value in ((5, "first"), (6, "second")):
        scene.changelogs.write("numbers", {777: value})
        position = json.dumps({"0": end}).replace(" ", "")
        row = scene.http.get(f"/stores/numbers/keys/777?min_position={position}&wait=30").json
        assert (row["value"], row["position"]) == (value, {"0": end})


def test_an_answer_says_what_is_missing_when_a_position_is_not_reached_in_time(scene: Scene) -> None:
    status, body = scene.http.get("/stores/per-minute/windows/DE?min_position=0:99&wait=0.05")
    assert status == 504
    assert "partition 0 is at 10 of 99" in body["message"]
    assert scene.http.post("/stores/numbers/keys", {"keys": [], "min_position": {"5": 1}, "wait": 0}).status == 504


def test_nothing_of_a_transaction_is_seen_when_it_is_open_or_aborted(scene: Scene) -> None:
    scene.changelogs.create("paid")
    scene.changelogs.write("paid", {"a": 1})
    scene.http.until("/stores/paid", lag=0, state="ready")
    with scene.changelogs.transaction(is_aborted=True) as producer:
        scene.changelogs.write("paid", {"a": 2, "b": 2}, producer)
    with scene.changelogs.transaction() as producer:
        scene.changelogs.write("paid", {"c": 3}, producer)
        assert scene.http.value("paid", "c") is None
    # Behind an aborted and a committed transaction, with their markers.
    row = scene.http.get("/stores/paid/keys/c?min_position=0:6&wait=60").json
    assert (row["value"], scene.http.value("paid", "a"), scene.http.value("paid", "b")) == (3, 1, None)


def test_a_store_is_read_anew_when_its_changelog_was_made_again(scene: Scene) -> None:
    scene.changelogs.create("short")
    scene.changelogs.write("short", {"old": 1, "both": 1})
    scene.http.until("/stores/short", rows=2, lag=0)
    scene.changelogs.delete("short")
    eventually(lambda: scene.http.get("/stores/short").status == 404, "the store is gone")
    scene.changelogs.create("short")
    scene.changelogs.write("short", {"both": 2})
    scene.http.until("/stores/short", rows=1, lag=0)
    assert (scene.http.value("short", "old"), scene.http.value("short", "both")) == (None, 2)


def test_a_partition_is_read_anew_when_its_beginning_has_passed_us(broker: RunningBroker, tmp_path: object) -> None:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("log", cleanup_policy="delete")
    changelogs.write("log", {"a": 1, "b": 1})
    data = {"penstock_streams_data_dir": str(tmp_path)}
    with running_stores(changelogs.application, broker.bootstrap_servers, **data) as server:
        assert Stores(server.url).value("log", "a") == 1
    changelogs.write("log", {"a": None, "b": 2, "c": 3})
    partition = TopicPartition(changelogs.topic("log"), 0, 4)
    for deleted in changelogs.admin.delete_records([partition]).values():
        deleted.result()
    with running_stores(changelogs.application, broker.bootstrap_servers, **data) as server:
        http = Stores(server.url)
        http.until("/stores/log", rows=1, lag=0, state="ready")
        assert [http.value("log", key) for key in "abc"] == [None, None, 3]


@pytest.mark.parametrize(
    "path",
    [
        "/stores/counts/keys?limit=-1",
        "/stores/counts/keys?after=nonsense",
        "/stores/counts/keys?form=a",
        "/stores/counts/keys/x?min_position=x",
        "/stores/counts/keys/x?wait=forever",
        "/stores/numbers/keys?from=abc",
        "/stores/numbers/keys?prefix=1",
        "/stores/per-minute/windows/DE?from=yesterday",
    ],
)
def test_a_question_is_refused_with_a_reason_when_it_makes_no_sense(scene: Scene, path: str) -> None:
    status, body = scene.http.get(path)
    assert (status, bool(body["message"])) == (400, True)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"keys":1}', b"[" * 500_000, b"\xff", b'{"keys":[' + b"1," * 5_000 + b"1]}"]
)
def test_a_body_is_refused_when_it_is_no_list_of_keys(scene: Scene, body: bytes) -> None:
    assert scene.http.post("/stores/counts/keys", body).status == 400


def test_a_body_is_refused_when_it_is_too_large(scene: Scene) -> None:
    assert Stores(scene.url).post("/stores/counts/keys", b" " * 2_000_000).status == 413
    assert Stores(scene.url).get("/stores/counts/keys/" + "x" * 9_000).status == 414


def test_rows_that_are_too_large_together_are_asked_for_in_parts_when_python_asks(scene: Scene) -> None:
    scene.changelogs.create("wide")
    scene.changelogs.write("wide", {f"w{number}": "x" * 900_000 for number in range(8)})
    scene.http.until("/stores/wide", rows=8, lag=0)
    keys = [f"w{number}" for number in range(8)]
    assert scene.http.post("/stores/wide/keys", {"keys": keys}).status == 413
    with OneStore(StoreClient(scene.url), "wide") as store:
        assert [row and len(row.value) for row in store.get_many(keys)] == [900_000] * 8


def test_a_question_that_waits_is_answered_when_the_server_stops_meanwhile(broker: RunningBroker) -> None:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("counts")
    with ThreadPoolExecutor(2) as beside:
        with running_stores(changelogs.application, broker.bootstrap_servers) as server:
            asking = beside.submit(Stores(server.url).get, "/stores/counts/keys/a?min_position=0:1&wait=1.8")
            (store,) = server.stores
            eventually(lambda: store.is_waited_for, "the question")
            writing = beside.submit(write_late, changelogs)
        writing.result()
        assert asking.result().status == 200


def write_late(changelogs: Changelogs) -> None:
    time.sleep(0.3)  # the server has begun to stop
    changelogs.write("counts", {"a": 1})


def test_others_are_answered_when_a_client_takes_nothing_of_its_answer(scene: Scene) -> None:
    address = urlsplit(scene.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as slow:
        slow.sendall(b"GET /stores/counts/keys HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        assert scene.http.value("counts", "k007") == {"count": 7}


def test_a_record_is_counted_or_shown_as_bytes_when_it_is_no_json(scene: Scene) -> None:
    changelogs = scene.changelogs
    changelogs.create("foreign")
    changelogs.write_bytes("foreign", b"\x00plain", b"{}")
    changelogs.write_bytes("foreign", b'"a"', b"\x00\x00\x00\x01")
    state = scene.http.until("/stores/foreign", rows=1, lag=0)
    assert state["skipped"] == 1
    row = scene.http.get("/stores/foreign/keys/a").json
    assert (row["value"], row["base64"]) == (None, "AAAAAQ==")


@pytest.mark.parametrize("way", ["url", "bootstrap_servers"])
def test_python_is_answered_alike_when_it_asks_a_server_or_the_changelog(
    scene: Scene, broker: RunningBroker, way: str
) -> None:
    def opened(store: str) -> OneStore:
        if way == "url":
            return open_store(scene.changelogs.application, store, url=scene.url)
        return open_store(scene.changelogs.application, store, bootstrap_servers=broker.bootstrap_servers)

    with opened("counts") as counts:
        row = counts.get("k007")
        assert row is not None
        assert (row.key, row.value, row.offset < row.position[row.partition]) == ("k007", {"count": 7}, True)
        assert counts.get("never") is None
        assert [row and row.value for row in counts.get_many(["k001", 5])] == [{"count": 100}, None]
        assert [row.key for row in counts.range(first="k010", last="k012")] == ["k010", "k011", "k012"]
        assert [row.key for row in counts.range(prefix="k", limit=2)] == ["k001", "k002"]
        with pytest.raises(StoreError, match="not that far"):
            counts.get("k007", min_position={0: 10_000}, wait_s=0.01)
    with opened("per-minute") as windows:
        found = list(windows.windows("DE", start_ms=60_000, end_ms=120_000))
        assert [(row.key, row.start_ms, row.end_ms, row.value) for row in found] == [
            ("DE", 60_000, 120_000, 1),
            ("DE", 120_000, 180_000, 2),
        ]
    with opened("no-such") as nothing, pytest.raises(StoreError, match="has no store"):
        nothing.get("x")


def test_the_next_server_is_asked_when_one_is_away(scene: Scene) -> None:
    client = StoreClient(f"http://127.0.0.1:9,{scene.url}")
    assert [each.name for each in client.stores() if each.name == "counts"] == ["counts"]
    client.close()
    with pytest.raises(StoreError, match="no server of stores answers"):
        StoreClient("http://127.0.0.1:9").stores()
