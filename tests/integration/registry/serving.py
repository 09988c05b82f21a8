"""A registry that forgets: its whole API over a socket, with a log in memory, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import requests

from penstock.http.server import HttpSecurity, HttpServer
from penstock.registry.api.access import Access
from penstock.registry.api.answers import ERRORS
from penstock.registry.api.calls import Identity
from penstock.registry.api.forwarding import ALONE, Forwarder
from penstock.registry.api.routes import LIMITS, routes
from penstock.registry.log import MemoryLog
from penstock.registry.service import SchemaService
from penstock.registry.state import State
from penstock.security.audit.events import NO_AUDIT, Auditor

PATIENCE_S = 30.0


class Answer(NamedTuple):
    status: int
    body: object

    @property
    def code(self) -> object:
        assert isinstance(self.body, dict), self.body
        return self.body["error_code"]


class Served(NamedTuple):
    url: str
    session: requests.Session

    def ask(self, method: str, path: str, body: object = None, **options: object) -> Answer:
        """`path` goes out as it is written: what requests would resolve or encode is part of the question."""
        asked = requests.Request(method, self.url, json=body, **options)  # type: ignore[arg-type]
        prepared = self.session.prepare_request(asked)
        prepared.url = self.url + path
        answer = self.session.send(prepared, timeout=PATIENCE_S)
        try:
            return Answer(answer.status_code, answer.json() if answer.content else None)
        except ValueError:
            return Answer(answer.status_code, answer.text)

    def get(self, path: str, **options: object) -> Answer:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: object, **options: object) -> Answer:
        return self.ask("POST", path, body, **options)

    def put(self, path: str, body: object, **options: object) -> Answer:
        return self.ask("PUT", path, body, **options)

    def delete(self, path: str, **options: object) -> Answer:
        return self.ask("DELETE", path, **options)


@contextmanager
def serving(
    *,
    security: HttpSecurity | None = None,
    access: Access | None = None,
    auditor: Auditor = NO_AUDIT,
    forwarder: Forwarder = ALONE,
    why_not_ready: Callable[[], str] = str,
) -> Iterator[Served]:
    started: list[int] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        state = State()
        service = SchemaService(state, MemoryLog(state.replay))
        table = routes(
            service,
            forwarder=forwarder,
            access=access,
            identity=Identity("a-cluster", version="1.2.3"),
            why_not_ready=why_not_ready,
        )
        server = HttpServer("registry", table, security, limits=LIMITS, auditor=auditor, errors=ERRORS)
        await server.start("127.0.0.1", 0)
        started.append(server.port)
        is_up.set()
        await asyncio.to_thread(is_over.wait)
        await server.stop()
        service.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="registry")
    thread.start()
    try:
        assert is_up.wait(PATIENCE_S), "the registry did not start"
        with requests.Session() as session:
            yield Served(f"http://127.0.0.1:{started[0]}", session)
    finally:
        is_over.set()
        thread.join(PATIENCE_S)
