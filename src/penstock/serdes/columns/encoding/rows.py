"""The interface of every encoder of columns, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """As many payloads, without any frame, as there were rows. Rows with an error are null."""

    payloads: pa.Array
    errors: dict[int, str] = field(default_factory=dict)


class ColumnEncoder(Protocol):
    """The encoder of one schema. No row makes it raise; a row that does not fit has an error."""

    def problems(self, kind: pa.DataType) -> list[str]:
        """The reasons why values of the type cannot be written with the schema at all; empty if they can."""
        ...

    def encode(self, values: pa.Array) -> EncodedRows:
        """Raises UnusableSchemaError where the type of the values has problems. A row that is null has an error."""
        ...
