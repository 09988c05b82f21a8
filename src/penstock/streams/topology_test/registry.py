"""A schema registry in this process, as small as clients let it be. It checks nothing: schemas are judged elsewhere."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.schemas.identity import fingerprint
from penstock.schemas.schema import Reference

CUT_OFF = 0


class RefusedError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class FakeRegistry:
    url: str = ""
    asked: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    # Answers that come before the real ones: a status, CUT_OFF for half an answer, or None to hang up.
    failures: list[int | None] = field(default_factory=list)
    subjects: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    associations: dict[str, str] = field(default_factory=dict)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        self.asked.append(f"{method} {path}")
        for pattern, handle in _ROUTES:
            found = re.fullmatch(pattern, f"{method} {path}")
            if found:
                return handle(self, *(unquote(each) for each in found.groups()), query=query, body=body)
        raise RefusedError(404, "HTTP 404 Not Found")

    def _stored(self, body: Any) -> dict[str, Any]:
        stored = {"schemaType": "AVRO", "references": [], **body}
        references = [Reference(each["name"], each["subject"], each["version"]) for each in stored["references"]]
        stored["guid"] = str(uuid.UUID(bytes=fingerprint(stored["schema"], references)))
        return stored

    def by_id(self, schema_id: str, *, query: dict[str, str], body: Any) -> Any:
        for versions in self.subjects.values():
            for stored in versions.values():
                if stored["id"] == int(schema_id):
                    return stored
        raise RefusedError(40403, "Schema not found")

    def by_guid(self, guid: str, *, query: dict[str, str], body: Any) -> Any:
        for versions in self.subjects.values():
            for stored in versions.values():
                if stored["guid"] == guid:
                    return stored
        raise RefusedError(40403, "Schema not found")

    def versions_of_id(self, schema_id: str, *, query: dict[str, str], body: Any) -> Any:
        found = [
            {"subject": subject, "version": version}
            for subject, versions in self.subjects.items()
            for version, stored in versions.items()
            if stored["id"] == int(schema_id)
        ]
        if not found:
            raise RefusedError(40403, "Schema not found")
        return found

    def version(self, subject: str, version: str, *, query: dict[str, str], body: Any) -> Any:
        versions = self.subjects.get(subject)
        if not versions:
            raise RefusedError(40401, f"Subject '{subject}' not found.")
        number = max(versions) if version in ("latest", "-1") else int(version)
        if number not in versions:
            raise RefusedError(40402, f"Version {version} not found.")
        return versions[number]

    def register(self, subject: str, *, query: dict[str, str], body: Any) -> Any:
        if body["schema"] == "refused":
            raise RefusedError(42201, "Invalid schema refused")
        try:
            return self.lookup(subject, query=query, body=body)
        except RefusedError:
            pass
        stored = self._stored(body)
        versions = self.subjects.setdefault(subject, {})
        stored["id"] = self.ids.setdefault(stored["guid"], len(self.ids) + 1)
        stored |= {"subject": subject, "version": len(versions) + 1}
        versions[stored["version"]] = stored
        return {"id": stored["id"]}

    def lookup(self, subject: str, *, query: dict[str, str], body: Any) -> Any:
        wanted = self._stored(body)
        for stored in self.subjects.get(subject, {}).values():
            if stored["guid"] == wanted["guid"]:
                return stored
        raise RefusedError(40403, "Schema not found")

    def association(self, topic: str, *, query: dict[str, str], body: Any) -> Any:
        return [{"subject": self.associations[topic]}] if topic in self.associations else []


_Handle = Callable[..., Any]
_ROUTES: list[tuple[str, _Handle]] = [
    (r"GET /schemas/ids/(\d+)", FakeRegistry.by_id),
    (r"GET /schemas/ids/(\d+)/versions", FakeRegistry.versions_of_id),
    (r"GET /schemas/guids/([^/]+)", FakeRegistry.by_guid),
    (r"GET /subjects", lambda self, *, query, body: sorted(self.subjects)),
    (r"GET /subjects/([^/]+)/versions", lambda self, subject, *, query, body: sorted(self.subjects.get(subject, ()))),
    (r"POST /subjects/([^/]+)/versions", FakeRegistry.register),
    (r"POST /subjects/([^/]+)", FakeRegistry.lookup),
    (r"GET /subjects/([^/]+)/versions/([^/]+)", FakeRegistry.version),
    (r"GET /associations/resources/-/([^/]+)", FakeRegistry.association),
]


def _handler(registry: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            with lock:
                registry.authorizations.append(self.headers.get("Authorization"))
                status: int | None
                status, answer = 200, None
                if registry.failures:
                    status, answer = registry.failures.pop(0), {"error_code": 50002, "message": "told so"}
                else:
                    try:
                        answer = registry.answer(self.command, parts.path, query, body)
                    except RefusedError as refused:
                        status = int(str(refused.code)[:3])
                        answer = {"error_code": refused.code, "message": str(refused)}
            if status is None:
                self.close_connection = True
                return
            data = json.dumps(answer).encode()
            self.send_response(200 if status == CUT_OFF else status)
            is_cut_off = status == CUT_OFF
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:5] if is_cut_off else data)
            self.close_connection |= is_cut_off

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def running_registry(context: Any = None) -> Iterator[FakeRegistry]:
    """Serves on a port of its own, with TLS where a context is given."""
    registry = FakeRegistry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    server.daemon_threads = True
    scheme = "http"
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    registry.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
