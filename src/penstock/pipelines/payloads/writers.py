"""Decoders of the schemas that rows name, by the registry's answers. A process keeps them between its tasks.

What rows name is made by strangers: everything that is kept has bounds, and a batch asks a bounded number of questions
whose answer is that there is no such schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.client.registry import RegisteredSchema, RegistryAnswerError, RegistryClient
from penstock.client.registry.references import context_of
from penstock.core.bounded_cache import BoundedCache
from penstock.pipelines.payloads.formats import PayloadFormat, RegistryAddress
from penstock.pipelines.payloads.spark_types import as_spark, spark_arrow_type
from penstock.schemas.schema import ParsedSchema
from penstock.serdes.codec import Codec
from penstock.serdes.columns.decoding import ColumnDecoder, DecodedRows
from penstock.serdes.columns.opening import open_columns, read_schema
from penstock.serdes.columns.payloads import Payloads, SchemaKey
from penstock.serdes.compiling import CodecOptions, compile_codec
from penstock.serdes.errors import SerdesError

# Registries that the tasks of one process ask: more than one or two is rare.
_MOST_CLIENTS = 8
# Schemas of one table, and the pairs of a table and its wanted fields that one process works on.
_MOST_DECODERS = 256
_MOST_WRITERS = 64
# A registry takes some milliseconds to say that it does not know an id: a batch of made-up ids waits a second at most.
_MOST_UNKNOWN = 200
# The registry's codes for subjects, versions and schemas that it does not have. Another 404 is no registry.
_UNKNOWN = (40401, 40402, 40403)

_clients: BoundedCache[RegistryAddress, RegistryClient] = BoundedCache(_MOST_CLIENTS)
_writers: BoundedCache[tuple[PayloadFormat, frozenset[str] | None], Writers] = BoundedCache(_MOST_WRITERS)


def writers_of(payload_format: PayloadFormat, fields: frozenset[str] | None) -> Writers:
    """Raises UnusableSchemaError, ChoiceError."""
    found = _writers.get((payload_format, fields))
    if found is None:
        assert payload_format.registry is not None
        client = _clients.get(payload_format.registry)
        if client is None:
            client = RegistryClient(payload_format.registry.settings())
            _clients.put(payload_format.registry, client)
        found = Writers(payload_format, fields, client)
        _writers.put((payload_format, fields), found)
    return found


class Writers:
    """The decoders of all schemas that payloads of one format were written with. For several threads."""

    def __init__(self, payload_format: PayloadFormat, fields: frozenset[str] | None, client: RegistryClient) -> None:
        """Raises UnusableSchemaError, ChoiceError."""
        self._client = client
        self._fields = fields
        self._message = payload_format.message
        subject = payload_format.subject
        # Ids count in the context of the subject. The default one needs no word about it.
        self._subject = subject if context_of(subject) else None
        self._reader: ParsedSchema | None = None
        self._decoders: BoundedCache[SchemaKey, ColumnDecoder | str] = BoundedCache(_MOST_DECODERS)
        self.type: pa.DataType = pa.string()
        if payload_format.reader is not None:
            self._reader = payload_format.reader.parsed()
            own = _AsSpark(open_columns(self._reader, None, fields, self._message))
            self.type = own.type
            schema = payload_format.reader.schema
            self._own = (schema.schema, own)
            for key in (schema.id, schema.guid):
                if key is not None:
                    self._decoders.put(key, own)

    def finder(self) -> Callable[[SchemaKey], ColumnDecoder | str]:
        """For one batch: what to decode with, or why a row does not decode.

        Raises RegistryClientError where the registry does not answer or refuses the login: rows may be good then.
        """
        unknown = 0

        def find(key: SchemaKey) -> ColumnDecoder | str:
            nonlocal unknown
            found = self._decoders.get(key)
            if found is not None:
                return found
            if unknown >= _MOST_UNKNOWN:
                return f"schema {key} was not looked up: the registry does not know {unknown} others of this batch"
            try:
                schema = self._ask(key)
            except RegistryAnswerError as error:
                if error.code not in _UNKNOWN:
                    raise
                unknown += 1
                return f"schema {key} is not known to the registry"
            made = self._made(key, schema)
            self._decoders.put(key, made)
            return made

        return find

    def _ask(self, key: SchemaKey) -> RegisteredSchema:
        if isinstance(key, str):
            return self._client.schema_by_guid(key)
        return self._client.schema_by_id(key, self._subject)

    def _made(self, key: SchemaKey, schema: RegisteredSchema) -> ColumnDecoder | str:
        others = self._client.referenced(schema.schema, self._subject)
        try:
            if self._reader is None:
                return _Texts(compile_codec(schema.schema, others, CodecOptions()))
            if schema.schema == self._own[0]:
                return self._own[1]
            made = open_columns(read_schema(schema.schema, others), self._reader, self._fields, self._message)
        except SerdesError as error:
            return f"schema {key}: {error}"
        if spark_arrow_type(made.type) != self.type:
            return f"schema {key} has other types than the reader's schema: {made.type}"
        return _AsSpark(made)


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
