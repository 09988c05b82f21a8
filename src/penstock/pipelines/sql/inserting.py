"""`INSERT INTO topic SELECT ...`: each row once, also when the driver was killed in the middle and the statement is run
again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.sql.statements import Insert

if TYPE_CHECKING:
    from penstock.pipelines.sql.tables import Tables


@dataclass(frozen=True, slots=True)
class InsertOptions:
    checkpoint: Path | None = None  # None: ./checkpoints/sql
    create_partitions: int = 0  # a topic that is missing is created with so many partitions; 0: it is an error
    format: str = "avro"  # of a schema that is derived: avro, json, protobuf
    subject: str = ""  # empty: <topic>-value


@dataclass(frozen=True, slots=True)
class Inserted:
    rows: int
    topic: str
    notices: list[str] = field(default_factory=list)
    is_continued: bool = False  # an earlier run of the statement had not come to its end


def insert(tables: Tables, statement: Insert, options: InsertOptions | None = None) -> Inserted:
    """Returns when all rows are committed. SqlError says what is missing."""
    raise NotImplementedError
