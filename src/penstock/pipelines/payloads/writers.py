"""Decoders of the schemas that rows name, by the registry's answers. A process keeps them between its tasks.

Strangers write the ids in rows: everything that is kept has bounds, and a batch spends a bounded time on ids without a
schema. A row is called bad only if its schema was looked up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from penstock.client.registry import RegisteredSchema, RegistryAnswerError, RegistryClient
from penstock.client.registry.references import context_of
from penstock.core.bounded_cache import BoundedCache
from penstock.pipelines.errors import TableError
from penstock.pipelines.payloads.formats import PayloadFormat
from penstock.pipelines.payloads.spark_types import as_spark, spark_arrow_type
from penstock.schemas.schema import ParsedSchema
from penstock.serdes.codec import Codec
from penstock.serdes.columns.decoding import ColumnDecoder, DecodedRows
from penstock.serdes.columns.open_columns import open_columns, read_schema
from penstock.serdes.columns.payloads import Payloads, SchemaKey
from penstock.serdes.compilation import CodecOptions, compile_codec
from penstock.serdes.errors import SerdesError

# Schemas of one table, and the pairs of a table and its wanted fields that one process works on.
_MOST_DECODERS = 256
_MOST_WRITERS = 64
# The process remembers between batches that the registry lacks an id. It does so only briefly, because a producer may
# have registered the schema just now.
_MOST_UNKNOWN = 10_000
_KEEP_UNKNOWN_S = 10.0
# Each unknown id costs a request to the registry, one after the other, of some milliseconds. A batch in which they take
# longer than this fails the task: its rows cannot be called bad, but a stranger's ids should not take hours either.
_PATIENCE_S = 60.0
# The registry's codes for subjects, versions and schemas that it does not have. Another 404 is no registry.
_UNKNOWN = (40401, 40402, 40403)

_writers: BoundedCache[tuple[PayloadFormat, frozenset[str] | None], Writers] = BoundedCache(_MOST_WRITERS)


def writers_of(payload_format: PayloadFormat, fields: frozenset[str] | None) -> Writers:
    """Raises UnusableSchemaError, ChoiceError."""
    found = _writers.get((payload_format, fields))
    if found is None:
        found = Writers(payload_format, fields)
        _writers.put((payload_format, fields), found)
    return found


class Writers:
    """The decoders of all schemas that payloads of one format were written with. For several threads."""

    def __init__(self, payload_format: PayloadFormat, fields: frozenset[str] | None) -> None:
        """Raises UnusableSchemaError, ChoiceError."""
        assert payload_format.registry is not None
        self.settings = payload_format.registry.settings()
        self._fields = fields
        self._message = payload_format.message
        subject = payload_format.subject
        # Ids count in the context of the subject. The default one needs no word about it.
        self._subject = subject if context_of(subject) else None
        self._reader: ParsedSchema | None = None
        self._decoders: BoundedCache[SchemaKey, ColumnDecoder | str] = BoundedCache(_MOST_DECODERS)
        self._unknown: BoundedCache[SchemaKey, str] = BoundedCache(
            _MOST_UNKNOWN, keep_s=_KEEP_UNKNOWN_S, clock=time.monotonic
        )
        self.type: pa.DataType = pa.string()
        if payload_format.reader is not None:
            self._reader = payload_format.reader.parsed()
            own = _AsSpark(open_columns(self._reader, None, fields, self._message))
            self.type = own.type
            schema = payload_format.reader.schema
            for key in (schema.id, schema.guid):
                if key is not None:
                    self._decoders.put(key, own)

    def known(self, key: SchemaKey) -> ColumnDecoder | str | None:
        return self._decoders.get(key) or self._unknown.get(key)

    def learn(self, key: SchemaKey, client: RegistryClient) -> ColumnDecoder | str:
        """The decoder, or why rows of the schema do not decode. Raises RegistryClientError."""
        try:
            if isinstance(key, str):
                schema = client.schema_by_guid(key)
            else:
                schema = client.schema_by_id(key, self._subject)
        except RegistryAnswerError as error:
            if error.code not in _UNKNOWN:
                raise
            why = f"schema {key} is not known to the registry"
            self._unknown.put(key, why)
            return why
        made = self._made(key, schema, client)
        self._decoders.put(key, made)
        return made

    def _made(self, key: SchemaKey, schema: RegisteredSchema, client: RegistryClient) -> ColumnDecoder | str:
        others = client.referenced(schema.schema, self._subject)
        try:
            if self._reader is None:
                return _Texts(compile_codec(schema.schema, others, CodecOptions()))
            made = open_columns(read_schema(schema.schema, others), self._reader, self._fields, self._message)
        except SerdesError as error:
            return f"schema {key}: {error}"
        if spark_arrow_type(made.type) != self.type:
            return f"schema {key} has other types than the reader's schema: {made.type}"
        return _AsSpark(made)


class DecoderFinder:
    """Finds the decoders of one batch. Gets new ones from the registry, on one connection."""

    def __init__(self, writers: Writers, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._writers = writers
        self._client: RegistryClient | None = None
        self._clock = clock
        self._unknown = 0
        self._unknown_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def find(self, key: SchemaKey) -> ColumnDecoder | str:
        """The decoder, or why rows of the schema do not decode.

        Raises RegistryClientError where the registry does not answer or refuses the login: rows may be good then.
        TableError where too much time went into ids that it does not know.
        """
        found = self._writers.known(key)
        if found is not None:
            return found
        if self._unknown_s >= _PATIENCE_S:
            raise TableError(
                f"rows name so many schemas that the registry does not know that {self._unknown} took"
                f" {self._unknown_s:.0f} s, and schema {key} was not looked up",
                "Read the values as bytes, or other offsets: these rows were not written for this registry.",
            )
        if self._client is None:
            self._client = RegistryClient(self._writers.settings)
        began = self._clock()
        learned = self._writers.learn(key, self._client)
        if isinstance(learned, str):
            self._unknown += 1
            self._unknown_s += self._clock() - began
        return learned


class _AsSpark:
    """The values in the types that Spark takes."""

    def __init__(self, inner: ColumnDecoder) -> None:
        self._inner = inner
        self.type: pa.DataType = spark_arrow_type(inner.type)

    def decode(self, payloads: Payloads) -> DecodedRows:
        decoded = self._inner.decode(payloads)
        return DecodedRows(as_spark(decoded.values), decoded.errors)


class _Texts:
    """The JSON text of each value, by the schema it was written with."""

    type = pa.string()

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def decode(self, payloads: Payloads) -> DecodedRows:
        before = payloads.before.to_pylist() if payloads.before is not None else None
        texts: list[Any] = []
        errors: dict[int, str] = {}
        for row in range(len(payloads)):
            try:
                value = self._codec.decode(payloads.row(row), None if before is None else before[row])
                texts.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            except (SerdesError, RecursionError) as error:
                errors[row] = str(error)
                texts.append(None)
        return DecodedRows(pa.array(texts, self.type), errors)
