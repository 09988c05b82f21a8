"""A REST proxy beside the test, and short words for what is asked of it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from penstock.core.loops import LoopThread
from penstock.rest.server import RestServer
from penstock.rest.settings import RestSettings
from tests.clients.support import PATIENCE_S

V2 = "application/vnd.kafka.v2+json"


def embedded(form: str) -> str:
    return f"application/vnd.kafka.{form}.v2+json"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """Of an error."""
        code: int = self.json["error_code"]
        return code


class Rest:
    """`server` is there for what only its own process can see."""

    def __init__(self, url: str, server: RestServer | None = None) -> None:
        self.url = url
        self.server = server
        self._address = urlsplit(url).netloc

    def ask(self, method: str, path: str, body: Any = None, content_type: str = V2, **headers: str) -> Answer:
        """`body` is JSON, or bytes as they are. Headers have underscores for dashes."""
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S)
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            sent = {} if data is None else {"Content-Type": content_type}
            sent |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, content_type: str = V2, **headers: str) -> Answer:
        return self.ask("POST", path, body, content_type, **headers)

    def delete(self, path: str) -> Answer:
        return self.ask("DELETE", path)

    def produce(self, topic: str, records: list[dict[str, Any]], form: str = "json", **more: Any) -> Answer:
        return self.post(f"/topics/{topic}", {"records": records, **more}, embedded(form))

    def instance(self, group: str, **settings: Any) -> str:
        """Its path."""
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        answer = self.post(f"/consumers/{group}", {"auto.offset.reset": "earliest", **dotted})
        assert answer.status == 200, answer
        path: str = urlsplit(answer.json["base_uri"]).path
        return path


@contextlib.contextmanager
def running_rest(bootstrap_servers: str, **settings: str) -> Iterator[Rest]:
    """Settings have underscores for dots."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    thread = LoopThread("rest")
    server = RestServer(
        RestSettings.of({"bootstrap.servers": bootstrap_servers, "listeners": "http://127.0.0.1:0", **given})
    )
    try:
        thread.call(server.start())
        yield Rest(server.url, server)
    finally:
        thread.call(server.stop())
        thread.stop()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
