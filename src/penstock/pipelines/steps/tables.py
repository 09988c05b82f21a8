"""Lookups in what other people keep: a file, Redis, an SQL database."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError, missing_module

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FileLookup:
    """A CSV file with a heading, or a file of one JSON object a line, held in memory and read again when it changes.

    `columns` names the parts of a line that are the answer, as Spark writes it: "name string, risk int"."""

    path: str
    key: str
    columns: str

    @property
    def kind(self) -> str:
        return f"struct<{self.columns}>"

    def open(self, kind: pa.DataType) -> _FileTable:
        return _FileTable(self, kind)


@dataclass(frozen=True, slots=True)
class RedisLookup:
    """Strings in Redis by `prefix` and key; needs the package redis."""

    url: str
    prefix: str = ""

    @property
    def kind(self) -> str:
        return "string"

    def open(self, kind: pa.DataType) -> _RedisTable:
        return _RedisTable(self)


@dataclass(frozen=True, slots=True)
class SqlLookup:
    """Rows of a table in any database that SQLAlchemy speaks to, one per key."""

    url: str
    table: str
    key: str
    columns: str

    @property
    def kind(self) -> str:
        return f"struct<{self.columns}>"

    def open(self, kind: pa.DataType) -> _SqlTable:
        return _SqlTable(self, kind)


class _FileTable:
    def __init__(self, lookup: FileLookup, kind: pa.DataType) -> None:
        self._lookup = lookup
        self._kind = kind
        self._read_at = -1
        self._rows: dict[str, Mapping[str, Any]] = {}

    def find(self, keys: pa.Array) -> pa.Array:
        changed = os.stat(self._lookup.path).st_mtime_ns
        if changed != self._read_at:
            self._rows, self._read_at = self._load(), changed
        return answer(keys, self._rows, self._kind)

    def _load(self) -> dict[str, Mapping[str, Any]]:
        lookup = self._lookup
        with open(lookup.path, encoding="utf-8", newline="") as file:
            lines: Sequence[Mapping[str, Any]]
            if lookup.path.endswith(".csv"):
                lines = list(csv.DictReader(file))
            else:
                lines = [json.loads(line) for line in file if line.strip()]
        for number, line in enumerate(lines, 1):
            if lookup.key not in line:
                raise PipelineError(f"{lookup.path}: entry {number} has no {lookup.key!r}")
        return {str(line[lookup.key]): line for line in lines}


class _RedisTable:
    def __init__(self, lookup: RedisLookup) -> None:
        try:
            import redis
        except ModuleNotFoundError as error:
            raise missing_module(error, "a lookup in Redis") from error

        self._prefix = lookup.prefix
        self._client = redis.Redis.from_url(lookup.url)

    def find(self, keys: pa.Array) -> pa.Array:
        import pyarrow as pa

        distinct = sorted({key for key in keys.to_pylist() if key is not None})
        answers = self._client.mget([self._prefix + str(key) for key in distinct]) if distinct else []
        known = dict(zip(distinct, answers, strict=True))
        values = [known.get(key) for key in keys.to_pylist()]
        return pa.array([None if value is None else value.decode() for value in values], pa.string())

    def close(self) -> None:
        self._client.close()


class _SqlTable:
    def __init__(self, lookup: SqlLookup, kind: pa.DataType) -> None:
        import sqlalchemy

        self._kind = kind
        self._engine = sqlalchemy.create_engine(lookup.url, pool_pre_ping=True)
        table = sqlalchemy.Table(lookup.table, sqlalchemy.MetaData(), autoload_with=self._engine)
        self._key = table.c[lookup.key]
        self._wanted = [table.c[field.name] for field in self._kind]

    def find(self, keys: pa.Array) -> pa.Array:
        import sqlalchemy

        distinct = sorted({key for key in keys.to_pylist() if key is not None})
        known: dict[str, Mapping[str, Any]] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(distinct), _KEYS_PER_QUERY):
                some = distinct[start : start + _KEYS_PER_QUERY]
                query = sqlalchemy.select(self._key.label("_key"), *self._wanted).where(self._key.in_(some))
                known |= {str(row[0]): dict(row._mapping) for row in connection.execute(query)}
        return answer(keys, known, self._kind)

    def close(self) -> None:
        self._engine.dispose()


# Databases limit how many parameters a statement may have; SQLite's oldest limit is 999.
_KEYS_PER_QUERY = 900


def answer(keys: pa.Array, known: Mapping[str, Mapping[str, Any]], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    names = [field.name for field in kind]
    converters = {field.name: _CONVERTERS.get(str(field.type), lambda value: value) for field in kind}

    def of(key: Any) -> dict[str, Any] | None:
        row = None if key is None else known.get(str(key))
        return None if row is None else {name: _convert(row.get(name), converters[name]) for name in names}

    return pa.array([of(key) for key in keys.to_pylist()], kind)


# A CSV file has only text.
_CONVERTERS: dict[str, Any] = {"int32": int, "int64": int, "double": float, "float": float, "string": str}


def _convert(value: Any, converter: Any) -> Any:
    return None if value is None or value == "" else converter(value)
