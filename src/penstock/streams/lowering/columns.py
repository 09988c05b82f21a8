"""The columns of rows between nodes: the value's columns among them, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.sql_identifiers import quote
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import HEADERS, KEY, NULL, OFFSET, OURS, PARTITION, TIMESTAMP, Expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Every frame has these; headers only until the first node with state.
ALWAYS = (KEY, TIMESTAMP, NULL, PARTITION, OFFSET)
_OURS = frozenset(OURS)


def value_names(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name not in _OURS]


def our_names(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name in _OURS]


def column(name: str) -> Column:
    """A column of this very name, dots and backticks included."""
    from pyspark.sql import functions as F

    return F.col(quote(name))


def expression(given: Expression) -> Column:
    from pyspark.sql import functions as F

    return F.expr(given) if isinstance(given, str) else given


def columns(names: Iterable[str]) -> list[Column]:
    return [column(name) for name in names]


def with_values(rows: DataFrame, values: Sequence[Column], ours: Sequence[str] | None = None) -> DataFrame:
    """Rows with these as their value, and with what every row has."""
    return rows.select(*values, *columns(our_names(rows) if ours is None else ours))


def without_headers(rows: DataFrame) -> DataFrame:
    return rows.drop(HEADERS)


def refuse_our_names(names: Iterable[str], where: str) -> None:
    taken = [name for name in names if name.lower() in _OURS]
    if taken:
        raise StreamsError(
            f"{where}: {taken[0]!r} is the name of a column that every row has", "Choose another name for the column."
        )


def null_where_null(rows: DataFrame, value: Column) -> Column:
    """Nothing is computed for a row without a value."""
    from pyspark.sql import functions as F

    return F.when(~column(NULL), value)
