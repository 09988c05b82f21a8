"""The registry as serializers see it: one that may block, or one that only returns what the client has kept."""

from __future__ import annotations

from typing import Protocol, TypeVar

from penstock.client.registry import NewSchema, RegisteredSchema, RegistryClient

Value = TypeVar("Value")


class NotKeptError(Exception):
    """The client has not kept the answer, so it would have to call the registry."""


class View(Protocol):
    def schema_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema: ...

    def schema_by_guid(self, guid: str) -> RegisteredSchema: ...

    def version(self, subject: str, version: int) -> RegisteredSchema: ...

    def latest(self, subject: str) -> RegisteredSchema: ...

    def register(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema: ...

    def lookup(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema: ...

    def associated_subject(self, topic: str, *, is_key: bool) -> str | None: ...


class Kept:
    """Never blocks. Raises NotKeptError."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry

    def schema_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        return _found(self._registry.peek_by_id(schema_id, subject))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        return _found(self._registry.peek_by_guid(guid))

    def version(self, subject: str, version: int) -> RegisteredSchema:
        return _found(self._registry.peek_version(subject, version))

    def latest(self, subject: str) -> RegisteredSchema:
        return _found(self._registry.peek_latest(subject))

    def register(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema:
        return _found(self._registry.peek_registered(subject, schema, normalize=normalize))

    def lookup(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> RegisteredSchema:
        return _found(self._registry.peek_lookup(subject, schema, normalize=normalize))

    def associated_subject(self, topic: str, *, is_key: bool) -> str | None:
        return _found(self._registry.peek_associated_subject(topic, is_key=is_key))[0]


def _found(kept: Value | None) -> Value:
    if kept is None:
        raise NotKeptError
    return kept
