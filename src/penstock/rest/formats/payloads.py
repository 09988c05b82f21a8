"""Writers and readers of all formats. Formats with a schema ask the registry, where there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.rest.errors import INVALID_SCHEMA, TOO_LARGE, RestError
from penstock.rest.formats.formats import (
    LARGE_BYTES,
    MOST_BYTES,
    Format,
    Incoming,
    PayloadWriter,
    SchemaChoice,
    WriteRight,
)
from penstock.rest.formats.plain import PLAIN_READERS, PLAIN_WRITERS
from penstock.rest.formats.with_schemas import SchemaPayloads, SchemaWriter

Result = TypeVar("Result")

_NO_CHOICE = SchemaChoice()
# The limit for encoding on the loop: this number of records, which may become this many bytes larger than their JSON.
_FEW = 20
_GROWTH = 16 * 1024


class Payloads:
    """`most_bytes` bounds the bytes that are encoded with schemas at a time."""

    def __init__(self, schemas: SchemaPayloads | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._schemas = schemas
        self._most_bytes = most_bytes

    @classmethod
    async def open(cls, registry: Mapping[str, str], most_bytes: int) -> Payloads:
        """From the settings of the registry's client; without an address there is no registry. Raises ConfigError."""
        if not registry.get("schema.registry.url"):
            return cls()
        from penstock.client.registry import RegistryClient, RegistrySettings

        settings = await asyncio.to_thread(RegistrySettings.of_properties, registry)  # reads files
        return cls(SchemaPayloads(RegistryClient(settings)), most_bytes)

    async def writer(
        self, form: Format, topic: str, *, is_key: bool, right: WriteRight, choice: SchemaChoice = _NO_CHOICE
    ) -> PayloadWriter:
        """Raises RestError: a schema that is wrong, unknown or refused by the registry."""
        plain = PLAIN_WRITERS.get(form)
        if plain is not None:
            return plain
        return await self._with_schemas(form).writer(form, topic, is_key=is_key, right=right, choice=choice)

    async def schema_writer(
        self, form: Format | None, topic: str, *, is_key: bool, right: WriteRight, choice: SchemaChoice
    ) -> SchemaWriter:
        """Without a format the found schema determines it. Raises RestError."""
        return await self._with_schemas(form).writer(form, topic, is_key=is_key, right=right, choice=choice)

    async def read_all(self, form: Format, payloads: Sequence[Incoming], *, is_key: bool) -> list[Any]:
        """Each payload as a JSON value of the answer; a RestError in the place of one that does not fit the format.
        Raises RestError where the registry is away.
        """
        plain = PLAIN_READERS.get(form)
        if plain is not None:
            if form is Format.BINARY or sum(len(each.data or b"") for each in payloads) <= LARGE_BYTES:
                return _read_plain(plain, payloads)
            return await asyncio.to_thread(_read_plain, plain, payloads)
        return await self._with_schemas(form).read_all(payloads, is_key=is_key)

    async def write_all(self, form: Format, work: Callable[[int], Result], size: int, count: int = 1) -> Result:
        """Runs the encoding of a number of records with their bytes of JSON: in a thread, where it would hold up the
        loop for long. `work` gets the number of bytes that it may make, and raises RestError 413 beyond; it may be
        called again then.
        """
        if self._schemas is None or not form.has_schema:
            return work(self._most_bytes)
        if size <= LARGE_BYTES and count <= _FEW:
            bound = size + _GROWTH
            try:
                return work(min(bound, self._most_bytes))
            except RestError as error:
                if error.code != TOO_LARGE or bound >= self._most_bytes:
                    raise
        return await self._schemas.in_thread(lambda: work(self._most_bytes))

    def _with_schemas(self, form: Format | None) -> SchemaPayloads:
        if self._schemas is None:
            raise RestError(
                INVALID_SCHEMA, f"{form or 'this'} needs a schema registry, and schema.registry.url names none"
            )
        return self._schemas

    async def close(self) -> None:
        if self._schemas is not None:
            await self._schemas.close()


def _read_plain(read: Callable[[bytes], Any], payloads: Sequence[Incoming]) -> list[Any]:
    return [None if each.data is None else read(each.data) for each in payloads]
