"""How keys and values are read and written.

json("user string, url string, at timestamp")     an object per record; also json(Click), a dataclass
text()                                            one column, `value`
raw()                                             one column, `value`, of bytes
registry()                                        by a schema registry: the topic's subject, or the one that is named
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.row_types import columns_of


class FormatKind(StrEnum):
    JSON = "json"
    TEXT = "text"
    RAW = "raw"
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True)
class Format:
    kind: FormatKind
    columns: str = ""  # of JSON: DDL; empty where rows are written, and their columns are known
    row_type: type | None = None  # a dataclass that has given the columns
    subject: str | None = None  # of a registry; None: <topic>-key, <topic>-value
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO"  # of a registry, of what is written
    schema: str | None = field(default=None, repr=False)  # of a registry, of what is written; None: made of the columns


def json(columns: str | type | None = None) -> Format:
    """An object per record, with these columns: DDL, or a dataclass, which is also what functions see as a row. Without
    columns only for what is written: rows know theirs. `json("bigint")`, of a key: a JSON value of this type."""
    if columns is None:
        return Format(FormatKind.JSON)
    if isinstance(columns, str):
        if not columns.strip():
            raise StreamsError("json() got no columns", 'Write them as DDL, json("user string, at timestamp").')
        return Format(FormatKind.JSON, columns.strip())
    return Format(FormatKind.JSON, columns_of(columns), columns)


def text() -> Format:
    return Format(FormatKind.TEXT)


def raw() -> Format:
    return Format(FormatKind.RAW)


def registry(
    subject: str | None = None,
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO",
    schema: str | None = None,
) -> Format:
    """`schema_type` and `schema` are for writing; a payload that is read names its own schema."""
    if schema_type not in ("AVRO", "JSON", "PROTOBUF"):
        raise StreamsError(f"{schema_type!r} is no type of schema", "AVRO, JSON and PROTOBUF are.")
    return Format(FormatKind.REGISTRY, subject=subject, schema_type=schema_type, schema=schema)


def check_readable(found: Format, where: str) -> Format:
    """A JSON format for reading needs its columns."""
    if not isinstance(found, Format):
        raise StreamsError(f"{where} is no format: {found!r}", "json(...), text(), raw() and registry() make one.")
    if found.kind is FormatKind.JSON and not found.columns:
        raise StreamsError(
            f"{where} is read as JSON, but has no columns", 'Say them: json("user string, at timestamp").'
        )
    return found
