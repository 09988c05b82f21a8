"""The formats with a schema: avro, jsonschema and protobuf, through the registry.

Cached schemas answer at once. Otherwise one of a few threads asks the registry and compiles the schema: a hostile
schema takes seconds. Large bodies and answers are encoded and decoded there, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from penstock.client.registry import RegistryAnswerError, RegistryClient, RegistryUnreachableError
from penstock.rest.errors import (
    INVALID_PAYLOAD,
    INVALID_SCHEMA,
    JSON_CONVERSION,
    TOO_LARGE,
    TOO_MANY_REQUESTS,
    RestError,
)
from penstock.rest.formats.formats import (
    LARGE_BYTES,
    MOST_BYTES,
    Format,
    Incoming,
    SchemaChoice,
    UsedSchema,
    WriteRight,
)
from penstock.schemas.schema import SchemaType
from penstock.serdes.errors import ChoiceError, SerdesError, TooLargeError, UnusableSchemaError
from penstock.serdes.serializers import Encoder, Serializers
from penstock.serdes.serializers import SchemaChoice as ChosenSchema
from penstock.serdes.subjects import Strategy, strategy_named, subject_for

Result = TypeVar("Result")

_TYPES: Final = {
    Format.AVRO: SchemaType.AVRO,
    Format.JSONSCHEMA: SchemaType.JSON,
    Format.PROTOBUF: SchemaType.PROTOBUF,
}
_FORMATS: Final = {kind: form for form, kind in _TYPES.items()}
_NULL: Final = b"null"
_THREADS = 4
# The number of waiting jobs. Callers beyond it get an error to try again.
_MOST_WAITING = 512
_decode_json = msgspec.json.Decoder().decode


class SchemaWriter:
    """Never waits."""

    def __init__(self, encoder: Encoder, *, is_draft: bool = False) -> None:
        self._encoder = encoder
        self.is_draft = is_draft
        self.form = _FORMATS[encoder.schema_type]
        self.schema = UsedSchema(encoder.schema_id, encoder.subject, encoder.schema.version)

    def write(self, text: bytes, most_bytes: int = MOST_BYTES) -> bytes | None:
        if text == _NULL:
            return None
        try:
            return self._encoder.encode(_decode_json(text), most_bytes)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise RestError(INVALID_PAYLOAD, "the data is no JSON, or nests too deep") from None
        except TooLargeError as error:
            raise RestError(TOO_LARGE, str(error)) from None
        except SerdesError as error:
            raise RestError(JSON_CONVERSION, f"the data does not fit the schema: {error}") from None


class SchemaPayloads:
    def __init__(self, registry: RegistryClient, most_waiting: int = _MOST_WAITING) -> None:
        self._registry = registry
        self._most = _THREADS + most_waiting
        self._count = 0  # jobs in a thread or before one
        self._serializers = Serializers(registry)
        self._threads = ThreadPoolExecutor(_THREADS, "rest-schemas")

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Raises RestError where too many jobs wait already."""
        if self._count >= self._most:
            raise RestError(TOO_MANY_REQUESTS, "too many requests wait for their schemas: try again")
        self._count += 1
        job = asyncio.get_running_loop().run_in_executor(self._threads, work)
        job.add_done_callback(self._leave)  # a cancelled caller takes its waiting job with it
        return await job

    def _leave(self, _: asyncio.Future[Any]) -> None:
        self._count -= 1

    async def writer(
        self, form: Format | None, topic: str, *, is_key: bool, right: WriteRight, choice: SchemaChoice
    ) -> SchemaWriter:
        """Checks `right` before it registers a text, or makes a draft of it. Raises RestError."""
        chosen = _chosen(form, choice)
        is_draft = False
        if not right.may_choose_subject and not _is_of_topic(chosen, topic, is_key=is_key):
            chosen = replace(chosen, auto_register=False)
        try:
            encoder = self._serializers.peek_encoder(topic, is_key, chosen)
            if encoder is None:
                if chosen.text is not None:
                    await right.check_write()
                is_draft = choice.is_draft and chosen.text is not None and chosen.auto_register
                encoder = await self.in_thread(
                    lambda: (
                        self._serializers.draft(topic, is_key, chosen)
                        if is_draft
                        else self._serializers.encoder(topic, is_key, chosen)
                    )
                )
        except (SerdesError, RegistryAnswerError, RegistryUnreachableError) as error:
            raise _refusal(error) from None
        return SchemaWriter(encoder, is_draft=is_draft)

    async def read_all(self, payloads: Sequence[Incoming], *, is_key: bool) -> list[Any]:
        """A RestError in the place of an unreadable payload."""
        if sum(len(each.data or b"") for each in payloads) > LARGE_BYTES:
            return await self.in_thread(lambda: [self._read(each, is_key=is_key) for each in payloads])
        values: list[Any] = []
        for each in payloads:
            value = self._peek(each, is_key=is_key)
            if value is _UNKNOWN:
                value = await self.in_thread(lambda unknown=each: self._read(unknown, is_key=is_key))  # type: ignore[misc]
            values.append(value)
        return values

    def _peek(self, payload: Incoming, *, is_key: bool) -> Any:
        if payload.data is None:
            return None
        try:
            decoded = self._serializers.peek_decode(payload.topic, is_key, payload.data, payload.headers)
        except (SerdesError, RegistryAnswerError) as error:
            return _unreadable(error)
        return _UNKNOWN if decoded is None else decoded.value

    def _read(self, payload: Incoming, *, is_key: bool) -> Any:
        """Raises RestError where the registry is away: the record itself may be right."""
        if payload.data is None:
            return None
        try:
            return self._serializers.decode(payload.topic, is_key, payload.data, payload.headers).value
        except RegistryUnreachableError as error:
            raise _refusal(error) from None
        except (SerdesError, RegistryAnswerError) as error:
            return _unreadable(error)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._registry.close()


_UNKNOWN: Final = object()


def _chosen(form: Format | None, choice: SchemaChoice) -> ChosenSchema:
    try:
        strategy = Strategy.TOPIC_NAME if choice.strategy is None else strategy_named(choice.strategy)
    except ChoiceError as error:
        raise RestError(INVALID_SCHEMA, str(error)) from None
    is_latest = choice.may_be_latest and choice.text is None and choice.schema_id is None and choice.version is None
    return ChosenSchema(
        text=choice.text,
        schema_id=choice.schema_id,
        version=choice.version,
        is_latest=is_latest,
        subject=choice.subject,
        strategy=strategy,
        schema_type=None if form is None else _TYPES[form],
    )


def _is_of_topic(chosen: ChosenSchema, topic: str, *, is_key: bool) -> bool:
    if chosen.subject is not None:
        return chosen.subject == subject_for(Strategy.TOPIC_NAME, topic, None, is_key=is_key)
    return chosen.strategy is not Strategy.RECORD_NAME


def _refusal(error: Exception) -> RestError:
    if isinstance(error, RegistryUnreachableError):
        return RestError(503, "the schema registry cannot be reached")
    if isinstance(error, RegistryAnswerError) and error.is_refused_login:
        return RestError(503, "the schema registry does not let this proxy in")
    if isinstance(error, RegistryAnswerError) and error.status >= 500:
        return RestError(503, f"the schema registry failed: {error}")
    words = "the schema" if isinstance(error, UnusableSchemaError | ChoiceError) else "the schema registry refuses"
    return RestError(INVALID_SCHEMA, f"{words}: {error}")


def _unreadable(error: Exception) -> RestError:
    return RestError(INVALID_PAYLOAD, f"the record cannot be read with its schema: {error}")
