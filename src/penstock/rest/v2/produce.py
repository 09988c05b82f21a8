"""Produces records: the records of one call become one batch for each partition.

A call with a thousand records costs about a millisecond: they are tuples, not objects, on their way from the body to
the batch, msgspec reads base64, and JSON loses its spaces all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.client.batch_producer import Appended
from penstock.client.batches.batch_builder import RecordFields
from penstock.rest.answers import answer
from penstock.rest.errors import (
    FORBIDDEN,
    INVALID_PAYLOAD,
    KAFKA_BAD_REQUEST,
    KAFKA_ERROR,
    KEY_SCHEMA_MISSING,
    TOO_LARGE,
    UNAUTHENTICATED,
    VALUE_SCHEMA_MISSING,
    RestError,
)
from penstock.rest.formats.formats import Format, PayloadWriter, SchemaChoice
from penstock.rest.formats.plain import compact
from penstock.rest.number_texts import number_of
from penstock.rest.proxy import Proxy
from penstock.rest.record_producer import BatchOutcome
from penstock.rest.rights import TopicRight
from penstock.rest.v2.bodies import (
    BinaryProduceRequest,
    BinaryRecord,
    PartitionOffset,
    ProduceRecord,
    ProduceRequest,
    ProduceResponse,
    Schemas,
)
from penstock.rest.v2.media import answer_type, format_of_body
from penstock.rest.v2.record_count import has_more_objects
from penstock.rest.v2.topics import partition_of

_read = msgspec.json.Decoder(ProduceRequest).decode
_read_binary = msgspec.json.Decoder(BinaryProduceRequest).decode
_NULL = b"null"
# Work of more than a millisecond or two happens beside the loop.
LARGE_BODY = 512 * 1024
FEW_RECORDS = 2_000
# The characters of errors in an answer, for each batch: mostly all records of a batch have the same error.
_MOST_TEXT = 256 * 1024
_SHORT = "as before"

Result = TypeVar("Result")


class _Given(NamedTuple):
    """The decoded body."""

    records: Sequence[RecordFields]
    partitions: Sequence[int | None]
    key_schema_id: int | None = None
    value_schema_id: int | None = None
    size: int = 0  # of the data encoded with schemas: without schemas it is no larger than the body


async def produce_to_topic(proxy: Proxy, request: Request) -> Response:
    return await _produce(proxy, request, None)


async def produce_to_partition(proxy: Proxy, request: Request) -> Response:
    return await _produce(proxy, request, partition_of(request))


async def _produce(proxy: Proxy, request: Request, partition: int | None) -> Response:
    media_type = answer_type(request)
    form = format_of_body(request)
    topic: str = request.path_params["topic"]
    body = await proxy.inflight_bytes.read_body(request)
    brokers = await proxy.clients.of(request)
    size = len(body)
    await proxy.inflight_bytes.begin(size)
    try:
        given = await _read_given(proxy, form, proxy.right_of(brokers, topic), body)
        if not given.records:
            raise RestError(422, "records: at least one is needed")
        size = proxy.inflight_bytes.grow(size, given.size)
        batches = await brokers.producer.write(
            topic, given.records, given.partitions if partition is None else partition
        )
    finally:
        proxy.inflight_bytes.end(size)

    def show() -> Response:
        response = ProduceResponse(_shown(batches, len(given.records)), given.key_schema_id, given.value_schema_id)
        return answer(response, _status(batches), media_type)

    return await _beside_if(len(given.records) > FEW_RECORDS, show)


# ---------------------------------------------------------------------------------------------------- what came


async def _read_given(proxy: Proxy, form: Format, right: TopicRight, body: bytes) -> _Given:
    most_records = proxy.settings.number("penstock.rest.max.records")
    braces = body.count(b"{")
    is_large = len(body) > LARGE_BODY or braces > FEW_RECORDS
    # The outermost object has one of them, and each record has one.
    if braces - 1 > most_records and await _beside_if(True, lambda: has_more_objects(body, most_records)):
        raise RestError(TOO_LARGE, f"a request may have at most {most_records} records")
    if form is Format.BINARY:
        return await _beside_if(is_large, lambda: _binary(body))
    if form is Format.JSON:
        return await _beside_if(is_large, lambda: _json(body))
    return await _with_schemas(proxy, form, right, await _beside_if(is_large, lambda: _described(body)))


async def _beside_if(is_long: bool, work: Callable[[], Result]) -> Result:
    """Long work happens beside the loop."""
    return await asyncio.to_thread(work) if is_long else work()


def _binary(body: bytes) -> _Given:
    try:
        records = _read_binary(body).records
    except msgspec.ValidationError as error:
        if ".key" in str(error) or ".value" in str(error):
            raise RestError(
                INVALID_PAYLOAD, f"the format is binary, so keys and values are texts in base64: {error}"
            ) from None
        raise
    return _Given([(each.key, each.value, (), None) for each in records], _partitions(records))


def _json(body: bytes) -> _Given:
    records = _read(compact(body)).records
    fields = [(_unless_null(bytes(each.key)), _unless_null(bytes(each.value)), (), None) for each in records]
    return _Given(fields, _partitions(records))


def _partitions(records: Sequence[ProduceRecord | BinaryRecord]) -> list[int | None]:
    given = [each.partition for each in records]
    return list(map(number_of, given)) if str in set(map(type, given)) else cast("list[int | None]", given)


def _unless_null(text: bytes) -> bytes | None:
    return None if text == _NULL else text


class _Described(NamedTuple):
    """A body whose records have to be encoded. Keys that are null need no schema, nor do values."""

    request: ProduceRequest
    size: int
    partitions: Sequence[int | None]
    has_keys: bool
    has_values: bool


def _described(body: bytes) -> _Described:
    request = _read(body)
    records = request.records
    return _Described(
        request,
        len(body),
        _partitions(records),
        any(bytes(each.key) != _NULL for each in records),
        any(bytes(each.value) != _NULL for each in records),
    )


async def _with_schemas(proxy: Proxy, form: Format, right: TopicRight, given: _Described) -> _Given:
    """A new text is registered once all keys and values fit: they are encoded twice then."""
    request = given.request

    async def encode(*, is_draft: bool) -> tuple[_Given, bool]:
        keys = await _writer(proxy, form, right, request, is_key=True, is_draft=is_draft) if given.has_keys else None
        values = (
            await _writer(proxy, form, right, request, is_key=False, is_draft=is_draft) if given.has_values else None
        )
        records, size = await proxy.payloads.write_all(
            form, lambda most: _encoded(request.records, keys, values, most), given.size, len(request.records)
        )
        has_draft = any(each is not None and each.is_draft for each in (keys, values))
        return _Given(records, given.partitions, _id_of(keys), _id_of(values), size), has_draft

    encoded, has_draft = await encode(is_draft=True)
    return (await encode(is_draft=False))[0] if has_draft else encoded


async def _writer(
    proxy: Proxy, form: Format, right: TopicRight, given: ProduceRequest, *, is_key: bool, is_draft: bool
) -> PayloadWriter:
    choice = _choice(form, given, is_key=is_key)._replace(is_draft=is_draft)
    return await proxy.payloads.writer(form, right.topic, is_key=is_key, right=right, choice=choice)


def _choice(form: Format, schemas: Schemas, *, is_key: bool) -> SchemaChoice:
    schema_id = schemas.key_schema_id if is_key else schemas.value_schema_id
    text = schemas.key_schema if is_key else schemas.value_schema
    if form.has_schema and schema_id is None and text is None:
        if is_key:
            raise RestError(KEY_SCHEMA_MISSING, "Keys are given, so key_schema or key_schema_id is needed")
        raise RestError(VALUE_SCHEMA_MISSING, "Values are given, so value_schema or value_schema_id is needed")
    return SchemaChoice(schema_id=number_of(schema_id), text=text if schema_id is None else None)


def _encoded(
    records: Sequence[ProduceRecord], keys: PayloadWriter | None, values: PayloadWriter | None, most_bytes: int
) -> tuple[list[RecordFields], int]:
    """With the number of bytes of keys and values. Raises RestError as soon as there are more than `most_bytes`:
    defaults of schemas can make a small body any number of times larger.
    """
    encoded: list[RecordFields] = []
    size = 0
    for index, record in enumerate(records):
        try:
            key = None if keys is None else keys.write(bytes(record.key), most_bytes - size)
            size += len(key or b"")
            value = None if values is None else values.write(bytes(record.value), most_bytes - size)
            size += len(value or b"")
        except RestError as error:
            if error.code == TOO_LARGE:
                words = f"the records up to here take more than {most_bytes} bytes once they are encoded"
                raise RestError(TOO_LARGE, f"records[{index}]: {words}") from None
            raise RestError(error.code, f"records[{index}]: {error.message}") from None
        encoded.append((key, value, (), None))
    return encoded, size


def _id_of(writer: PayloadWriter | None) -> int | None:
    return None if writer is None or writer.schema is None else writer.schema.schema_id


# ---------------------------------------------------------------------------------------------------- what is told


def _shown(batches: Sequence[BatchOutcome], count: int) -> list[PartitionOffset]:
    if len(batches) == 1:
        return _shown_batch(batches[0])
    shown: list[PartitionOffset] = [PartitionOffset()] * count
    for batch in batches:
        for index, each in zip(batch.indexes, _shown_batch(batch), strict=True):
            shown[index] = each
    return shown


def _shown_batch(batch: BatchOutcome) -> list[PartitionOffset]:
    partition, indexes, result = batch
    if isinstance(result, Appended):
        return [PartitionOffset(partition, offset) for offset in result.offsets(len(indexes))]
    shown: list[PartitionOffset] = []
    left = _MOST_TEXT
    for error in result:
        left -= len(error.message)
        shown.append(PartitionOffset(None, None, _code(error), error.message if left >= 0 else _SHORT))
    return shown


def _code(error: RestError) -> int:
    """Version 2 has two codes for records that brokers refuse: one for records that may be sent again, and one for
    others.
    """
    return KAFKA_ERROR if error.code in (KAFKA_BAD_REQUEST, TOO_LARGE) else error.code


def _status(batches: Sequence[BatchOutcome]) -> int:
    """Single records fail inside of an answer with status 200. A caller without rights gets the status."""
    for batch in batches:
        if not isinstance(batch.result, Appended):
            for error in batch.result:
                if error.code in (UNAUTHENTICATED, FORBIDDEN):
                    return error.status
    return 200
