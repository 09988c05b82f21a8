"""A registry in memory, asked one thing after another, and schemas to ask it with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from penstock.registry.documents import config_request_from_json
from penstock.registry.errors import RegistryError
from penstock.registry.log import Log, LogRecord, MemoryLog
from penstock.registry.model import Deleted, SchemaRequest, StoredSchema
from penstock.registry.service import SchemaService
from penstock.registry.state import State

_Result = TypeVar("_Result")


def record(*fields: str, name: str = "R", types: dict[str, Any] | None = None) -> str:
    """An Avro record. A field with a `?` behind its name has a default."""
    written: list[dict[str, Any]] = []
    for field in fields:
        each: dict[str, Any] = {"name": field.rstrip("?"), "type": (types or {}).get(field, "string")}
        written.append(each | ({"default": ""} if field.endswith("?") else {}))
    return json.dumps({"type": "record", "name": name, "fields": written})


class Registry:
    def __init__(self, records: Sequence[LogRecord] = (), around: Callable[[MemoryLog], Log] | None = None) -> None:
        self.state = State()
        self.log = MemoryLog(self.state.replay)
        self.service = SchemaService(self.state, self.log if around is None else around(self.log))
        self.runner = asyncio.Runner()
        self.run(self.log.write(records))

    def run(self, operation: Coroutine[Any, Any, _Result]) -> _Result:
        return self.runner.run(operation)

    def close(self) -> None:
        self.service.close()
        self.runner.close()

    def register(self, subject: str, text: str, **fields: Any) -> StoredSchema:
        normalize = fields.pop("normalize", False)
        return self.run(
            self.service.subjects.register(subject, SchemaRequest(text, **fields), normalize=normalize)
        ).stored

    def lookup(self, subject: str, text: str, *, deleted: bool = False, **fields: Any) -> StoredSchema:
        return self.run(self.service.subjects.lookup(subject, SchemaRequest(text, **fields), deleted=deleted)).stored

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> StoredSchema:
        return self.run(self.service.subjects.version(subject, str(version), deleted=deleted)).stored

    def versions(self, subject: str, deleted: Deleted = Deleted.LEFT_OUT) -> list[int]:
        return self.run(self.service.subjects.versions(subject, deleted=deleted))

    def subjects(self, prefix: str = "", deleted: Deleted = Deleted.LEFT_OUT) -> list[str]:
        return self.run(self.service.subjects.names(prefix, deleted=deleted))

    def delete(self, subject: str, *, permanent: bool = False) -> list[int]:
        return self.run(self.service.subjects.delete(subject, permanent=permanent))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        return self.run(self.service.subjects.delete_version(subject, str(version), permanent=permanent))

    def text_by_id(self, schema_id: int, subject: str = "") -> str:
        return self.run(self.service.schemas.text_by_id(schema_id, subject=subject))

    def configure(self, scope: str = "", **fields: Any) -> None:
        self.run(self.service.settings.set_config(config_request_from_json(fields), scope))

    def set_mode(self, mode: str, scope: str = "", *, force: bool = False) -> None:
        self.run(self.service.settings.set_mode(mode, scope, force=force))

    def is_compatible(self, subject: str, text: str, version: int | str | None = None, **fields: Any) -> bool:
        request = SchemaRequest(text, **fields)
        compatibility = self.service.compatibility
        if version is None:
            return self.run(compatibility.with_subject(subject, request)).is_compatible
        return self.run(compatibility.with_version(subject, str(version), request)).is_compatible


@contextmanager
def refused(code: int, text: str = "") -> Iterator[None]:
    with pytest.raises(RegistryError) as caught:
        yield
    assert caught.value.code == code, caught.value
    assert text in caught.value.message
