"""A server of stores beside the test, and changelogs written by another client library."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.core.loops import LoopThread
from penstock.streams.stores.server import StoresServer
from penstock.streams.stores.settings import StoresSettings
from tests.clients.support import PATIENCE_S, eventually, new_name


class Answer(NamedTuple):
    status: int
    json: Any


class Stores:
    def __init__(self, url: str, tls: ssl.SSLContext | None = None, authorization: str | None = None) -> None:
        self.url = url
        self._headers = {} if authorization is None else {"Authorization": authorization}
        self._address = urlsplit(url).netloc
        self._tls = tls

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        connection = (
            http.client.HTTPConnection(self._address, timeout=PATIENCE_S)
            if self._tls is None
            else http.client.HTTPSConnection(self._address, timeout=PATIENCE_S, context=self._tls)
        )
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()))
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        return self.ask("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def value(self, store: str, key: str) -> Any:
        answer = self.get(f"/stores/{store}/keys/{key}")
        return answer.json.get("value")

    def until(self, path: str, **fields: Any) -> Any:
        """The answer once it has these fields."""

        def look() -> Any:
            found = self.get(path).json
            return found if all(found.get(name) == value for name, value in fields.items()) else None

        return eventually(look, f"{path} with {fields}")


@contextlib.contextmanager
def running_stores(application: str, bootstrap_servers: str, **settings: str) -> Iterator[StoresServer]:
    """Settings have underscores for dots."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    properties = {
        "application.id": application,
        "bootstrap.servers": bootstrap_servers,
        "listeners": "http://127.0.0.1:0",
        "penstock.streams.listing.interval.ms": "200",
        **given,
    }
    thread = LoopThread("stores")
    server = StoresServer(StoresSettings.of(properties))
    try:
        thread.call(server.start())
        thread.call(server.wait_ready())
        yield server
    finally:
        thread.call(server.stop())
        thread.stop()


class Changelogs:
    """Of an application that no other test has."""

    def __init__(self, bootstrap_servers: str, application: str | None = None) -> None:
        self.application = application or new_name("app")
        self.bootstrap_servers = bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})

    def topic(self, store: str) -> str:
        return f"{self.application}-{store}-changelog"

    def create(self, store: str, partitions: int = 1, **config: str) -> None:
        dotted = {"cleanup.policy": "compact"} | {name.replace("_", "."): text for name, text in config.items()}
        topic = NewTopic(self.topic(store), partitions, 1, config=dotted)
        self.admin.create_topics([topic])[topic.topic].result()

    def delete(self, store: str) -> None:
        self.admin.delete_topics([self.topic(store)])[self.topic(store)].result()

    def write(self, store: str, rows: Mapping[Any, Any], producer: Producer | None = None, **more: Any) -> None:
        """Keys of text are windowed keys or JSON where they begin with a brace; None deletes."""
        used = producer or self._producer
        for key, value in rows.items():
            text = key if isinstance(key, str) and key.startswith("{") else json.dumps(key)
            used.produce(self.topic(store), key=text, value=None if value is None else json.dumps(value), **more)
        used.flush()

    def write_bytes(self, store: str, key: bytes, value: bytes) -> None:
        self._producer.produce(self.topic(store), key=key, value=value)
        self._producer.flush()

    @contextlib.contextmanager
    def transaction(self, *, is_aborted: bool = False) -> Iterator[Producer]:
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "transactional.id": new_name("writer")})
        producer.init_transactions()
        producer.begin_transaction()
        yield producer
        producer.flush()
        if is_aborted:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
