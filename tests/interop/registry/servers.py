"""A registry under comparison, and its answers in a form that can be compared."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.interop.registry.histories import Call

_TIMEOUT_S = 30
_HEADERS = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    # An error's code; 0 for an answer that is none.
    code: int
    body: Any

    @property
    def is_error(self) -> bool:
        return self.status >= 400


class ComparedServer:
    """Ids differ from server to server. In answers they are the number of the registration that brought them first."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        self._prefix = parts.path
        self.begin()

    def begin(self) -> None:
        """A new history."""
        self._ids: dict[int, int] = {}

    @property
    def knows_ids(self) -> bool:
        return bool(self._ids)

    def ask(self, call: Call) -> Answer:
        path = call.path
        if "{id}" in path:
            path = path.replace("{id}", str(next(reversed(self._ids))))
        body = None if call.body is None else json.dumps(call.body)
        self._connection.request(call.method, self._prefix + path, body, _HEADERS)
        response = self._connection.getresponse()
        raw = response.read()
        try:
            document = json.loads(raw) if raw else None
        except ValueError:
            document = raw.decode()
        if response.status >= 400:
            code = document.get("error_code", 0) if isinstance(document, dict) else 0
            return Answer(response.status, code, None)
        return Answer(response.status, 0, self._comparable(call, document))

    def _comparable(self, call: Call, document: Any) -> Any:
        if call.kind == "register":
            return {"id": self._number_of(document["id"])}
        if call.kind in ("look up", "version"):
            named = {name: document[name] for name in ("subject", "version")}
            return named | {"id": self._number_of(document["id"]), "schema": _comparable_text(document["schema"])}
        if call.kind == "by id":
            return {"schema": _comparable_text(document["schema"]), "type": document.get("schemaType", "AVRO")}
        if call.kind in ("text", "by id/schema"):
            return _comparable_text(document if isinstance(document, str) else json.dumps(document))
        if call.kind == "by id/versions":
            return sorted((each["subject"], each["version"]) for each in document)
        if call.kind == "by id/subjects":
            return sorted(document)
        if call.kind == "check":
            return document["is_compatible"]
        if call.kind in ("set level", "level", "level or default", "delete level"):
            return document.get("compatibilityLevel", document.get("compatibility"))
        return document

    def _number_of(self, schema_id: int) -> int:
        return self._ids.setdefault(schema_id, len(self._ids) + 1)

    def close(self) -> None:
        self._connection.close()


def _comparable_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # Protobuf: the layout is the printer's own
        return " ".join(text.split())
