"""Records as columns, by the schemas of a registry: Avro, JSON Schema and Protobuf.

    from_registry()                                    the subject `<topic>-value`, read by its latest schema
    from_registry("orders-value", reader=3)            read by version 3
    from_registry(of="key", into="key")                the key, as one column

What a record was written with may differ from row to row; all rows are read by one reader's schema, which is found when
the run starts. A row that does not decode has the reason in `error` and the schema that it names in `source.schema`;
see `dead_letters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class FromRegistry:
    """Describes the step. A run opens it; called without a run, it opens itself."""

    subject: str | None
    registry: str | Mapping[str, str] | None
    of: Literal["value", "key"]
    reader: str | int
    into: str | None
    new_columns: Literal["drop", "restart"]

    @property
    def __name__(self) -> str:
        raise NotImplementedError

    def open(self, pipeline: Pipeline) -> OpenFromRegistry:
        raise NotImplementedError

    def __call__(self, rows: DataFrame) -> DataFrame:
        raise NotImplementedError


class OpenFromRegistry:
    def __call__(self, rows: DataFrame) -> DataFrame:
        raise NotImplementedError

    @property
    def is_outdated(self) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


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
    without it what `--set registry.url=...` says. `reader`: "latest", a version of the subject, or a schema as text.
    `into`: one column of this name instead of a column for each field. `new_columns`: what becomes of fields that the
    subject gets while the pipeline runs and reads the latest: "drop" leaves them out until the next start, "restart"
    lets the run start anew between two batches."""
    return FromRegistry(subject, registry, of, reader, into, new_columns)
