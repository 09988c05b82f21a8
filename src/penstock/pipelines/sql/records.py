"""Rows of a question as records of a topic: which columns are the key, the headers and the partition, and how the
others become the value.

    _key        the key: by the schema of the topic's keys if they have one; a record by one that is derived, or as
                JSON; text and bytes as they are, others as their text
    _headers    array<struct<key: string, value: binary>>
    _partition  int
    _offset, _timestamp   left out: brokers and producers give them
    others      the fields of the value

Values are written with the latest schema of the topic's subject if the columns fit it, else with one that is derived
from the columns and registered, where the registry finds it compatible. Without a registry they are JSON, and so they
are where the topic holds JSON and has no subject (`contents`). One column `value` of text or bytes is the value itself
where the topic has no schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from penstock.client.registry import (
    ReferencedSchema,
    RegistryAnswerError,
    RegistryClient,
    RegistryClientError,
    SchemaReference,
)
from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.payloads.encoding import SchemaRequest, SinkSchema, open_encoder, register_schema
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.sql_identifiers import quote
from penstock.pipelines.tables.topic_contents import TopicContents, check_can_be_json
from penstock.schemas.schema import SchemaType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_HEADERS = "array<struct<key:string,value:binary>>"
_DROPPED = frozenset({"_offset", "_timestamp"})
_RAW = frozenset({"string", "binary"})
FORMATS = {"avro": SchemaType.AVRO, "json": SchemaType.JSON, "protobuf": SchemaType.PROTOBUF}
DEFAULT_FORMAT = "avro"


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns by what they are to a record."""

    fields: tuple[str, ...]
    key: str | None = None
    headers: str | None = None
    partition: str | None = None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Encoding:
    """How rows are written; plain values, for tasks and for the file of a job. Without a schema it is as it is."""

    value: SinkSchema | None = None
    key: SinkSchema | None = None
    is_raw: bool = False  # the only column is the value

    def to_json(self) -> dict[str, Any]:
        return {"is_raw": self.is_raw, "value": _write(self.value), "key": _write(self.key)}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Encoding:
        return cls(_read(document["value"]), _read(document["key"]), document["is_raw"])


@dataclass(frozen=True, slots=True)
class EncodingRequest:
    topic: str
    format: str = ""  # of a derived schema; empty: the user has named none
    subject: str = ""  # empty: <topic>-value
    registry: RegistryAddress | None = field(default=None, repr=False)
    contents: Callable[[], TopicContents] = lambda: TopicContents.NOTHING  # called where the values have no subject


def find_roles(columns: StructType, topic: str) -> Roles:
    """SqlError for columns that no record can have."""
    names: dict[str, str] = {}
    for column in columns.fields:
        if column.name.lower() in names:
            raise SqlError(f"the column {column.name} is there twice", "Give one of them another name: ... AS other")
        names[column.name.lower()] = column.name
    types = {column.name: column.dataType.simpleString() for column in columns.fields}
    for name, wanted in (("_headers", _HEADERS), ("_partition", "int")):
        if name in names and types[names[name]] != wanted:
            raise SqlError(f"the column {name} is {types[names[name]]}; it has to be {wanted}")
    ours = {"_key", "_headers", "_partition"} | _DROPPED
    fields = tuple(name for lowered, name in names.items() if lowered not in ours)
    if not fields:
        raise SqlError(f"nothing is left to be the value of a record of {topic}", "Select some columns besides ours.")
    dropped = tuple(name for lowered, name in names.items() if lowered in _DROPPED)
    return Roles(fields, names.get("_key"), names.get("_headers"), names.get("_partition"), dropped)


def choose_encoding(columns: StructType, roles: Roles, request: EncodingRequest) -> Encoding:
    """Registers what is missing, after its compatibility was checked. PipelineError."""
    from pyspark.sql.types import StructType

    value = StructType([columns[name] for name in roles.fields])
    is_raw = roles.fields == ("value",) and value["value"].dataType.simpleString() in _RAW
    if request.registry is None:
        if not is_raw and not request.format:
            check_can_be_json(request.topic, request.contents())
        return Encoding(is_raw=is_raw)
    subject = request.subject or f"{request.topic}-value"
    try:
        with RegistryClient(request.registry.settings()) as client:
            latest = _latest_type(client, subject)
            is_raw = is_raw and latest is None
            contents = TopicContents.NOTHING
            if latest is None and not is_raw and not request.format:
                contents = request.contents()
                check_can_be_json(request.topic, contents)
            is_plain = is_raw or contents is TopicContents.JSON
            schema = None if is_plain else _choose(client, subject, latest, value, request)
            return Encoding(schema, _choose_key(client, columns, roles, request, is_plain), is_raw)
    except RegistryClientError as error:
        raise SqlError(f"the registry was asked about {subject}: {error}") from error


def to_records(rows: DataFrame, roles: Roles, encoding: Encoding) -> DataFrame:
    """Rows with the columns that the topic's sink takes."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    fields = [F.col(quote(name)) for name in roles.fields]
    whole = F.struct(*fields)
    value = fields[0] if encoding.is_raw else whole if encoding.value is not None else F.to_json(whole)
    chosen = [value.alias("value")]
    if roles.key is not None:
        key, kind = F.col(quote(roles.key)), rows.schema[roles.key].dataType
        if encoding.key is None and kind.simpleString() not in _RAW:
            key = F.to_json(key) if isinstance(kind, StructType) else key.cast("string")
        chosen.append(key.alias("key"))
    chosen += [
        F.col(quote(name)).alias(alias)
        for name, alias in ((roles.headers, "headers"), (roles.partition, "partition"))
        if name is not None
    ]
    records = rows.select(*chosen)
    encoded = {"value": encoding.value, "key": encoding.key}
    if not any(encoded.values()):
        return records
    schema = StructType()
    for column in records.schema.fields:
        schema = schema.add(column.name, "binary" if encoded.get(column.name) else column.dataType)
    return records.mapInArrow(_Encode(encoding), schema)


@dataclass(frozen=True, slots=True)
class _Encode:
    """The function of mapInArrow."""

    encoding: Encoding

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        encoders = {
            name: open_encoder(schema, is_key=name == "key")
            for name, schema in (("value", self.encoding.value), ("key", self.encoding.key))
            if schema is not None
        }
        for batch in batches:
            for name, encoder in encoders.items():
                place = batch.schema.get_field_index(name)
                if place >= 0:
                    batch = batch.set_column(place, name, encoder.encode(batch.column(place)))
            yield batch


def _choose(
    client: RegistryClient, subject: str, latest: SchemaType | None, columns: StructType, request: EncodingRequest
) -> SinkSchema:
    """A subject that has a schema keeps its kind. A schema that is derived allows nulls everywhere: whether Spark knows
    that a column has none is an accident of the question, and a later one may leave the column out or add another."""
    from pyspark.sql.types import StructField, StructType

    nullable = StructType([StructField(column.name, column.dataType) for column in columns.fields])
    # The latest version's name: registries take a record of another name for another record.
    name = _record_name(request.topic) if latest is None else None
    derived = SchemaRequest(subject, latest or FORMATS[request.format or DEFAULT_FORMAT], name=name)
    if latest is None:
        return register_schema(client, derived, nullable)
    try:
        return register_schema(client, SchemaRequest(subject, latest, is_latest=True), columns)
    except PipelineError as unfit:
        try:
            return register_schema(client, derived, nullable)
        except PipelineError as refused:
            raise SqlError(
                f"the columns do not fit the latest schema of {subject}: {unfit.message.rstrip('.')}; and a schema of"
                f" the columns is refused: {refused.message}",
                refused.hint or unfit.hint,
            ) from refused


def _choose_key(
    client: RegistryClient, columns: StructType, roles: Roles, request: EncodingRequest, is_plain: bool
) -> SinkSchema | None:
    """Keys have the schema that the topic's keys have. Without one, records get one unless values have none, and others
    are as they are."""
    from pyspark.sql.types import StructType

    if roles.key is None:
        return None
    kind, subject = columns[roles.key].dataType, f"{request.topic}-key"
    latest = _latest_type(client, subject)
    if isinstance(kind, StructType) and not (is_plain and latest is None):
        return _choose(client, subject, latest, kind, request)
    if latest is None:
        return None
    try:
        # Of columns it asks the type alone, and that of one column is as good.
        return register_schema(client, SchemaRequest(subject, latest, is_latest=True), cast("StructType", kind))
    except PipelineError as unfit:
        raise SqlError(
            f"the column {roles.key} is {kind.simpleString()} and does not fit the latest schema of {subject}:"
            f" {unfit.message}",
            f"Readers of {request.topic} expect keys of that schema: give {roles.key} its type, by CAST for one.",
        ) from unfit


def _latest_type(client: RegistryClient, subject: str) -> SchemaType | None:
    try:
        return SchemaType(client.latest(subject).schema_type)
    except RegistryAnswerError as error:
        if error.is_not_found:
            return None
        raise


def _record_name(topic: str) -> str:
    """The topic's name as schemas may write a name."""
    name = "".join(part[:1].upper() + part[1:] for part in _words(topic))
    return name if name and not name[0].isdigit() else f"T{name}"


def _words(topic: str) -> Sequence[str]:
    return "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in topic).split()


def _write(schema: SinkSchema | None) -> dict[str, Any] | None:
    return None if schema is None else asdict(schema)


def _read(document: Mapping[str, Any] | None) -> SinkSchema | None:
    if document is None:
        return None
    references = tuple(SchemaReference(**each) for each in document["references"])
    referenced = tuple(ReferencedSchema(**each) for each in document["referenced"])
    return SinkSchema(
        **{**document, "schema_type": SchemaType(document["schema_type"])}
        | {"references": references, "referenced": referenced}
    )
