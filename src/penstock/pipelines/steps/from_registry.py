"""Records as columns, by the schemas of a registry: Avro, JSON Schema and Protobuf.

    from_registry()                                    the subject `<topic>-value`, read by its latest schema
    from_registry("orders-value", reader=3)            read by version 3
    from_registry(of="key", into="key")                the key, as one column

What a record was written with may differ from row to row; all rows are read by one reader's schema, which is found when
the run starts. A row that does not decode has the reason in `error` and the schema that it names in `source.schema`;
see `dead_letters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.client.registry import NewSchema, RegisteredSchema, RegistryClient
from penstock.pipelines.dead_letters import ERROR, HEADERS, SCHEMA, SOURCE
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.decoding import Decoded, in_pieces, open_decoder
from penstock.pipelines.payloads.formats import (
    PayloadFormat,
    PayloadKind,
    ReaderSchema,
    RegistryAddress,
    resolve_format,
)
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, Pipeline, Settings
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.steps.parsing import keep_source
from penstock.pipelines.steps.registries import (
    SubjectWatch,
    address_of,
    columns_of_batch,
    free_names,
    refusals_told,
)
from penstock.pipelines.topic_source import Topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LATEST = "latest"
_DECODED = "_decoded"
_VALUE = "value"
_SAY_SUBJECT = "Say from_registry(SUBJECT), or decode in combine, where each source is by itself."
_NO_VALUE = "the record has no value"
_NO_HEADERS = " (headers were not looked at: Topic(..., headers=True) does, where they name the schema)"


@dataclass(frozen=True, slots=True)
class FromRegistry:
    """Describes the step. A run opens it. Called without a run it opens itself, and needs a registry and a subject."""

    subject: str | None
    registry: str | Mapping[str, str] | None = field(repr=False)  # may hold a password
    of: Literal["value", "key"]
    reader: str | int
    into: str | None
    new_columns: Literal["drop", "restart"]

    @property
    def __name__(self) -> str:
        reader = self.reader if isinstance(self.reader, int) or self.reader == LATEST else None
        return _name(self.subject or f"the topic's {self.of}", reader)

    def check(self, pipeline: Pipeline) -> None:
        self.open(pipeline).close()

    def open(self, pipeline: Pipeline) -> OpenFromRegistry:
        subject = self.subject or _subject_of(pipeline, self.of)
        return self._open(subject, pipeline.settings)

    def __call__(self, rows: DataFrame) -> DataFrame:
        if self.subject is None:
            raise PipelineError("a step outside of a pipeline knows no topic", "Say from_registry(SUBJECT).")
        return self._open(self.subject, DEFAULT_SETTINGS)(rows)

    def _open(self, subject: str, settings: Settings) -> OpenFromRegistry:
        address = address_of(self.registry, settings)
        with refusals_told():
            return OpenFromRegistry(self, subject, _format(address, subject, self.reader))


class OpenFromRegistry:
    """Reads by one schema for as long as it is open."""

    def __init__(self, step: FromRegistry, subject: str, payload_format: PayloadFormat) -> None:
        assert payload_format.reader is not None
        assert payload_format.registry is not None
        self._step = step
        self._format = payload_format
        version = payload_format.reader.schema.version
        self.__name__ = _name(subject, version)
        self._watch: SubjectWatch | None = None
        self._watched = (payload_format.registry, subject, version)

    def is_outdated(self) -> bool:
        if self._step.reader != LATEST or self._step.new_columns == "drop":
            return False
        if self._watch is None:
            self._watch = SubjectWatch(*self._watched)
        return self._watch.has_newer

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        step = self._step
        before = [name for name in rows.columns if name not in (SOURCE, ERROR)] if SOURCE in rows.columns else []
        kept = keep_source(rows)
        decoded = kept.withColumn(_DECODED, self._decoded(kept))
        payload, broken = F.col(f"{SOURCE}.{step.of}"), F.col(f"{_DECODED}.{ERROR}")
        if HEADERS not in kept.select(f"{SOURCE}.*").columns:
            is_unnamed = F.col(f"{_DECODED}.{SCHEMA}").isNull()
            broken = F.when(is_unnamed, F.concat(broken, F.lit(_NO_HEADERS))).otherwise(broken)
        error = F.when(payload.isNull(), _NO_VALUE).otherwise(broken) if step.of == "value" else broken
        known = [F.col(ERROR)] if ERROR in rows.columns else []
        schema = F.col(f"{_DECODED}.{SCHEMA}")
        if SCHEMA in kept.select(f"{SOURCE}.*").columns:  # a step before has read the key, say
            earlier = F.col(f"{SOURCE}.{SCHEMA}")
            schema = F.when(F.col(ERROR).isNotNull(), earlier).otherwise(F.coalesce(schema, earlier))
        source = F.col(SOURCE).withField(SCHEMA, schema)
        return decoded.select(
            source.alias(SOURCE),
            F.coalesce(*known, error).alias(ERROR),
            *(F.col(quote(name)) for name in before),
            *self._columns(tuple(before)),
        )

    def _decoded(self, rows: DataFrame) -> Column:
        """A struct of the value, the reason why there is none, and the schema that the row names. One Python worker
        sees the payload and the headers; all other columns stay in the JVM."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructType

        payload_format, is_key = self._format, self._step.of == "key"
        result = StructType().add(_VALUE, payload_format.spark_type).add(ERROR, StringType()).add(SCHEMA, StringType())

        def decode(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
            decoder = open_decoder(payload_format, is_key=is_key)
            for batch in batches:
                columns = columns_of_batch(batch)

                def decode_some(start: int, end: int, columns: tuple[pa.Array, ...] = columns) -> Decoded:
                    return decoder.decode(*(each.slice(start, end - start) for each in columns))

                for decoded in in_pieces(len(columns[0]), decode_some):
                    made = [decoded.values, decoded.errors, decoded.schemas]
                    yield pa.StructArray.from_arrays(made, names=[_VALUE, ERROR, SCHEMA])

        names = [self._step.of, *([HEADERS] if HEADERS in rows.select(f"{SOURCE}.*").columns else [])]
        # Named as not deterministic, or Spark would decode a second time for a filter that it moves below the decoding.
        decoding = F.arrow_udf(decode, result).asNondeterministic()  # type: ignore[call-overload]
        return decoding(*(F.col(f"{SOURCE}.{name}") for name in names))  # type: ignore[no-any-return]

    def _columns(self, before: tuple[str, ...]) -> list[Column]:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        step, kind = self._step, self._format.spark_type
        if step.into is not None or not isinstance(kind, StructType):
            name = step.into or step.of
            if name.lower() in {each.lower() for each in (*before, SOURCE, ERROR)}:
                raise PipelineError(f"there is a column {name!r} already", "Say into= and another name.")
            return [F.col(f"{_DECODED}.{_VALUE}").alias(name)]
        names = free_names(kind.names, (SOURCE, ERROR))
        twice = [name for name in names if name.lower() in {each.lower() for each in before}]
        if twice:
            raise PipelineError(
                f"a step before has made a column {twice[0]!r}", "Say into= and a name for the fields of one of them."
            )
        fields = zip(kind.names, names, strict=True)
        return [F.col(f"{_DECODED}.{_VALUE}").getField(field).alias(name) for field, name in fields]


def from_registry(
    subject: str | None = None,
    *,
    registry: str | Mapping[str, str] | None = None,
    of: Literal["value", "key"] = "value",
    reader: str | int = "latest",
    into: str | None = None,
    new_columns: Literal["drop", "restart"] = "drop",
) -> FromRegistry:
    """Columns of the record's value or key.

    `subject`: the topic's own, unless it is given. `registry`: an address, or properties as Confluent names them;
    without it the one of `--set registry.url=...`. `reader`: "latest", a version of the subject, or a schema as text.
    `into`: one column of this name instead of a column for each field; a value that is no record is one column in any
    case,
    `value` or `key`. Fields that are called `source` or `error` get an `_` behind. `new_columns`: what becomes of
    fields that the subject gets while the pipeline runs and reads the latest: "drop" leaves them out until the next
    start, "restart" lets the run start anew between two batches, once it is sure that steps, sinks and the state of
    branches take them; until then it goes on with the columns it has, and warns."""
    if of not in ("value", "key"):
        raise PipelineError(f"of is 'value' or 'key', not {of!r}")
    if new_columns not in ("drop", "restart"):
        raise PipelineError(f"new_columns is 'drop' or 'restart', not {new_columns!r}")
    return FromRegistry(subject, registry, of, reader, into, new_columns)


def _subject_of(pipeline: Pipeline, of: str) -> str:
    topics: list[str] = []
    for source in pipeline.sources:
        if isinstance(source, Topic) and not isinstance(source.topics, str):
            raise PipelineError(f"{source.name} may be many topics, and each has a subject of its own", _SAY_SUBJECT)
        topics += source.topics.split(",") if isinstance(source, Topic) else ()
    if len(topics) != 1:
        raise PipelineError(
            f"the pipeline reads {len(topics)} topics, and each has a subject of its own",
            _SAY_SUBJECT,
        )
    return f"{topics[0].strip()}-{of}"


def _name(subject: str, reader: str | int | None) -> str:
    by = f"version {reader}" if isinstance(reader, int) else reader or "by a schema of its own"
    return f"from_registry({subject}, {by})"


def _format(address: RegistryAddress, subject: str, reader: str | int) -> PayloadFormat:
    if isinstance(reader, int):
        return resolve_format(address, subject, reader)
    if reader == LATEST:
        return resolve_format(address, subject)
    with RegistryClient(address.settings()) as client:
        schema = NewSchema(reader, client.latest(subject).schema_type)
    return PayloadFormat(PayloadKind.REGISTRY, address, subject, ReaderSchema(RegisteredSchema(schema)))
