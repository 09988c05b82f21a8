"""Columns as the key and the value of a record, by a schema of a registry.

    to_registry("paid-value")                                      all columns, by a schema that is made of them
    to_registry("paid-value", schema=text, key="customer")         by this schema; the key is the customer as it is
    to_registry("paid-value", schema_type="PROTOBUF", columns=("id", "total * 2 AS total"), framing="header")

The schema is registered before the first batch: one that the registry refuses ends the start with the registry's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ToRegistry:
    """Describes the step. A run opens it; called without a run, it opens itself."""

    subject: str
    registry: str | Mapping[str, str] | None
    schema: str | None
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"]
    columns: tuple[str, ...]
    key: str | None
    key_subject: str | None
    framing: Literal["prefix", "header"]

    @property
    def __name__(self) -> str:
        raise NotImplementedError

    def open(self, pipeline: Pipeline) -> OpenToRegistry:
        raise NotImplementedError

    def __call__(self, rows: DataFrame) -> DataFrame:
        raise NotImplementedError


class OpenToRegistry:
    is_outdated = False

    def __call__(self, rows: DataFrame) -> DataFrame:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def to_registry(
    subject: str,
    *,
    registry: str | Mapping[str, str] | None = None,
    schema: str | None = None,
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO",
    columns: tuple[str, ...] = (),
    key: str | None = None,
    key_subject: str | None = None,
    framing: Literal["prefix", "header"] = "prefix",
) -> ToRegistry:
    """Rows with `value` and, where asked for, `key` and `headers`, as a topic takes them, and no other columns.

    `schema`: the text of one; without it one is made of the columns. `columns`: SQL expressions; without them all
    columns are written. `key`: an SQL expression, taken as it is, or written by the schema of `key_subject` if that is
    given, which is made of its type. `framing`: where the schema is named, in front of the payload or in a header."""
    return ToRegistry(subject, registry, schema, schema_type, columns, key, key_subject, framing)
