"""A proxy in a thread of the tests, and requests to it with a client that is not ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests

from penstock.core.loops import LoopThread
from penstock.rest.server import RestServer
from penstock.rest.settings import RestSettings

RULE = {
    "resource_type": "TOPIC",
    "resource_name": "v3-",
    "pattern_type": "PREFIXED",
    "principal": "User:v3-alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}

_numbers = itertools.count(1)


def new_name(word: str) -> str:
    return f"{word}-{next(_numbers)}"


@dataclass(frozen=True)
class V3:
    base: str
    cluster_id: str = ""
    session: requests.Session = field(default_factory=requests.Session)

    @property
    def url(self) -> str:
        return f"{self.base}/v3/clusters/{self.cluster_id}"

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        """`path` is below the cluster."""
        if body is not None:
            options["json"] = body
        return self.session.request(method, f"{self.url}{path}", timeout=30, **options)

    def get(self, path: str, **options: Any) -> Any:
        answer = self.ask("GET", path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, int]:
        """Status and code."""
        answer = self.ask(method, path, body, **options)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["error_code"]

    def make_topic(self, word: str, **more: Any) -> str:
        name = new_name(word)
        made = self.ask("POST", "/topics", {"topic_name": name, **more})
        assert made.status_code == 201, made.text
        return name


@contextmanager
def run_proxy(bootstrap_servers: str, auth: tuple[str, str] | None = None, **settings: str) -> Iterator[V3]:
    """Names of settings have `_` for `.`; `auth` is the login of the tests."""
    properties = {"bootstrap.servers": bootstrap_servers, "listeners": "http://127.0.0.1:0"}
    properties |= {name.replace("_", "."): text for name, text in settings.items()}
    loop = LoopThread("REST proxy of the tests")
    server = RestServer(RestSettings.of(properties))
    loop.call(server.start())
    try:
        base = f"http://127.0.0.1:{server.port}"
        with requests.Session() as session:
            session.auth = auth
            found = session.get(f"{base}/v3/clusters", timeout=30)
            assert found.status_code == 200, found.text
            yield V3(base, found.json()["data"][0]["cluster_id"], session)
    finally:
        loop.call(server.stop())
        loop.stop()
