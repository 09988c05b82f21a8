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


class Kind(StrEnum):
    JSON = "json"
    TEXT = "text"
    RAW = "raw"
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True)
class Format:
    kind: Kind
    columns: str = ""  # of JSON: DDL; empty where rows are written, and their columns are known
    row_type: type | None = None  # a dataclass that has given the columns
    subject: str | None = None  # of a registry; None: <topic>-key, <topic>-value
    schema_type: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO"  # of a registry, of what is written
    schema: str | None = field(default=None, repr=False)  # of a registry, of what is written; None: made of the columns
