"""Columns as the key and the value of a record, by a schema of a registry.

    to_registry("paid-value")                                      all columns, by a schema that is made of them
    to_registry("paid-value", schema=text, key="customer")         by this schema; the key is the customer as it is
    to_registry("paid-value", schema_type="PROTOBUF", columns=("id", "total * 2 AS total"), framing="header")

The schema is registered before the first batch: one that the registry refuses ends the start with the registry's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.client.registry import RegistryAnswerError, RegistryClient
from penstock.pipelines.dead_letters import ERROR, SOURCE
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.encoding import Framing, SchemaRequest, SinkSchema, open_encoder, register_schema
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, Pipeline
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.steps.registries import address_of, columns_of_batch, refusals_told
from penstock.schemas.schema import SchemaType
from penstock.serdes.errors import SerdesError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_ENCODED = "_encoded"
KEY, VALUE, HEADERS = "key", "value", "headers"


@dataclass(frozen=True, slots=True)
class RegistryKey:
    """A key that is a record by a schema of its own."""

    subject: str
    expression: str  # SQL; what is no struct is the record's one field


@dataclass(frozen=True, slots=True)
class ToRegistry:
    """Describes the step. A run opens it. Called without a run it opens itself, and needs a registry."""

    subject: str
    registry: str | Mapping[str, str] | None = field(repr=False)  # may hold a password
    schema: str | None
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"]
    columns: tuple[str, ...]
    key: str | RegistryKey | None
    framing: Literal["prefix", "header"]

    @property
    def __name__(self) -> str:
        return f"to_registry({self.subject}, {self.schema_type})"

    def check(self, pipeline: Pipeline) -> None:
        """Schemas are made of columns that Spark alone knows, so this only checks that a registry answers."""
        address = address_of(self.registry, pipeline.settings)
        with refusals_told(), RegistryClient(address.settings()) as client, suppress(RegistryAnswerError):
            client.latest(self.subject)

    def open(self, pipeline: Pipeline) -> OpenToRegistry:
        is_in_branch = not any(step is self for step in pipeline.steps)
        return OpenToRegistry(self, address_of(self.registry, pipeline.settings), is_in_branch)

    def __call__(self, rows: DataFrame) -> DataFrame:
        return OpenToRegistry(self, address_of(self.registry, DEFAULT_SETTINGS), False)(rows)


@dataclass(frozen=True, slots=True)
class _Schemas:
    """The schemas with which rows of some columns are written."""

    value: SinkSchema
    key: SinkSchema | None
    headers: tuple[tuple[str, bytes], ...]


class OpenToRegistry:
    """Registers a schema when it is first given rows, which a run does before its first batch.

    A row that does not fit gets an `error`. In a branch no later step sends such rows elsewhere, so the row fails the
    batch.
    """

    def __init__(self, step: ToRegistry, address: RegistryAddress, is_in_branch: bool) -> None:
        self._step = step
        self._address = address
        self._is_in_branch = is_in_branch
        self._schemas: tuple[str, _Schemas] | None = None  # by the columns, as Spark writes their types
        self.__name__ = step.__name__

    def is_outdated(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        step = self._step
        is_good = F.col(ERROR).isNull() if ERROR in rows.columns else F.lit(True)
        names = [name for name in rows.columns if name not in (SOURCE, ERROR)]
        payload = [F.expr(each) for each in step.columns] or [F.col(quote(name)) for name in names]
        chosen = [F.struct(*payload).alias(VALUE)]
        if step.key is not None:
            chosen.append(self._key(rows).alias(KEY))
        schemas = self._schemas_of(rows.select(*chosen).schema)
        given = chosen if schemas.key is not None else chosen[:1]
        encoded = rows.withColumn(_ENCODED, _encoded(step.framing, schemas, [F.when(is_good, each) for each in given]))
        key = [F.col(f"{_ENCODED}.{KEY}")] if schemas.key is not None else chosen[1:]
        return encoded.select(*self._carried(rows), *key, self._value().alias(VALUE), *_headers(schemas))

    def _key(self, rows: DataFrame) -> Column:
        """By a schema, a key that is no struct is a record of one field."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        given = self._step.key
        if not isinstance(given, RegistryKey):
            return F.expr(given or "")
        key = F.expr(given.expression)
        if isinstance(rows.select(key).schema.fields[0].dataType, StructType):
            return key
        return F.struct(key)

    def _carried(self, rows: DataFrame) -> list[Column]:
        from pyspark.sql import functions as F

        carried = [F.col(SOURCE)] if SOURCE in rows.columns else []
        if self._is_in_branch:
            return carried
        known = [F.col(ERROR)] if ERROR in rows.columns else []
        return [*carried, F.coalesce(*known, F.col(f"{_ENCODED}.{ERROR}")).alias(ERROR)]

    def _value(self) -> Column:
        from pyspark.sql import functions as F

        value, error = F.col(f"{_ENCODED}.{VALUE}"), F.col(f"{_ENCODED}.{ERROR}")
        if not self._is_in_branch:
            return value
        refused = F.raise_error(F.concat(F.lit(f"a row does not fit the schema of {self._step.subject}: "), error))
        return F.when(error.isNull(), value).otherwise(refused.cast("binary"))

    def _schemas_of(self, columns: StructType) -> _Schemas:
        kind = columns.json()
        if self._schemas is None or self._schemas[0] != kind:
            with refusals_told():
                self._schemas = kind, self._register(columns)
        return self._schemas[1]

    def _register(self, columns: StructType) -> _Schemas:
        step, settings, schema_type = self._step, self._address.settings(), SchemaType(self._step.schema_type)
        request = SchemaRequest(step.subject, schema_type, step.schema)
        value = register_schema(settings, request, _struct_of(columns, VALUE))
        key = None
        if isinstance(step.key, RegistryKey):
            key = register_schema(settings, SchemaRequest(step.key.subject, schema_type), _struct_of(columns, KEY))
        self.__name__ = f"to_registry({step.subject}, {step.schema_type}, version {value.version})"
        try:  # here rather than in a task: a schema that no encoder takes, or a registry that knows no guids
            encoders = [open_encoder(value, Framing(step.framing))]
            if key is not None:
                encoders.append(open_encoder(key, Framing(step.framing), is_key=True))
        except SerdesError as error:
            raise PipelineError(f"rows cannot be written by the schema of {step.subject}: {error}") from error
        return _Schemas(value, key, tuple(each.header for each in encoders if each.header is not None))


def _encoded(framing: str, schemas: _Schemas, given: list[Column]) -> Column:
    """A struct of what a record is made of, and the reason why there is none."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType, StructType

    names = [VALUE] if schemas.key is None else [VALUE, KEY]
    result = StructType()
    for name in names:
        result = result.add(name, BinaryType())
    result = result.add(ERROR, StringType())
    chosen = [schemas.value] if schemas.key is None else [schemas.value, schemas.key]

    def encode(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        encoders = [open_encoder(each, Framing(framing), is_key=index > 0) for index, each in enumerate(chosen)]
        for batch in batches:
            columns = columns_of_batch(batch)
            payloads: list[pa.Array] = []
            errors: dict[int, str] = {}
            for name, encoder, rows in zip(names, encoders, columns, strict=True):
                encoded = encoder.encode_rows(rows)
                payloads.append(encoded.payloads)
                errors = {row: f"the {name} does not fit: {text}" for row, text in encoded.errors.items()} | errors
            texts = pa.array([errors.get(row) for row in range(len(columns[0]))] if errors else [], pa.string())
            told = texts if errors else pa.nulls(len(columns[0]), pa.string())
            yield pa.StructArray.from_arrays([*payloads, told], names=[*names, ERROR])

    # Named as not deterministic, or Spark might encode once for each column that is taken out of the result.
    return F.arrow_udf(encode, result).asNondeterministic()(*given)  # type: ignore[call-overload,no-any-return]


def _headers(schemas: _Schemas) -> list[Column]:
    from pyspark.sql import functions as F

    if not schemas.headers:
        return []
    pairs = [F.struct(F.lit(name).alias("key"), F.lit(value).alias("value")) for name, value in schemas.headers]
    return [F.array(*pairs).alias(HEADERS)]


def _struct_of(columns: StructType, name: str) -> StructType:
    from pyspark.sql.types import StructType

    kind = columns[name].dataType
    assert isinstance(kind, StructType)
    return kind


def to_registry(
    subject: str,
    *,
    registry: str | Mapping[str, str] | None = None,
    schema: str | None = None,
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO",
    columns: Sequence[str] = (),
    key: str | RegistryKey | None = None,
    framing: Literal["prefix", "header"] = "prefix",
) -> ToRegistry:
    """Rows with `value` and, where asked for, `key` and `headers`, as a topic takes them, and no other columns.

    `schema`: the text of one; without it one is made of the columns. `columns`: SQL expressions; without them all
    columns are written. `key`: an SQL expression, taken as it is, or a `RegistryKey`, whose schema is made of its type.
    `framing`: the place of the schema's id, in front of the payload or in a header."""
    if framing not in tuple(Framing):
        raise PipelineError(f"framing is 'prefix' or 'header', not {framing!r}")
    if schema_type not in tuple(SchemaType):
        raise PipelineError(f"schema_type is one of {', '.join(SchemaType)}, not {schema_type!r}")
    return ToRegistry(subject, registry, schema, schema_type, tuple(columns), key, framing)
