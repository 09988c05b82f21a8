"""Python functions over rows: in a worker of Spark's, a batch of rows in Arrow at a time.

The functions are columns, not maps over whole frames: so the time keeps its watermark, and columns that no function
sees stay in the JVM. A dict has the value's columns and, of the others, `_key` and `_timestamp`; what comes back may
have more than the declared columns.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.pipelines.sql_identifiers import type_ddl
from penstock.pipelines.steps.kinds import arrow_kind, columns_of
from penstock.streams.lowering.columns import (
    column,
    columns,
    null_where_null,
    our_names,
    refuse_our_names,
    value_names,
)
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.functions import function_name
from penstock.streams.topology.nodes import KEY, NULL, OFFSET, PARTITION, TIMESTAMP, MapRows, Peek

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.streams.lowering.context import Context

_MADE = "_made"
_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError)


def lower_map_rows(node: MapRows, inputs: list[DataFrame], context: Context) -> DataFrame:
    """None, returned by a function, means that there is no value."""
    from pyspark.sql import functions as F

    (rows,) = inputs
    kind = columns_of(node.columns)
    refuse_our_names(kind.names, node.name)
    ddl = type_ddl(kind)
    work = flat_caller(node.function, node.row_type) if node.is_flat else row_caller(node.function, node.row_type)
    made = _called(f"{node.name}: {function_name(node.function)}", work, f"ARRAY<{ddl}>" if node.is_flat else ddl)
    given = _row(rows, is_whole=node.row_type is None)
    ours = our_names(rows)
    if node.is_flat:
        several = rows.where(~column(NULL)).withColumn(_MADE, made(given))
        some = several.select(F.explode(_MADE).alias(_MADE), *columns(ours))
        return some.select(*(column(_MADE).getField(name).alias(name) for name in kind.names), *columns(ours))
    one = rows.withColumn(_MADE, made(null_where_null(rows, given)))
    values = [column(_MADE).getField(name).alias(name) for name in kind.names]
    kept = [column(_MADE).isNull().alias(NULL) if name == NULL else column(name) for name in ours]
    return one.select(*values, *kept)


def lower_peek(node: Peek, inputs: list[DataFrame], context: Context) -> DataFrame:
    """Called for rows without a value, too. A condition that always holds, and that Spark has to ask."""
    (rows,) = inputs
    function = node.function

    def look(row: Any) -> bool:
        function(row)
        return True

    seen = _called(f"{node.name}: {function_name(function)}", look, "BOOLEAN")
    return rows.where(seen(_row(rows, is_whole=True)))


def _row(rows: DataFrame, *, is_whole: bool) -> Column:
    from pyspark.sql import functions as F

    return F.struct(*columns(value_names(rows)), *(columns((KEY, TIMESTAMP)) if is_whole else ()))


def _called(where: str, work: Callable[[Any], Any], ddl: str) -> Callable[[Column], Column]:
    """Named as not deterministic, so that Spark calls it once for a row, wherever its result is used. It gets the row's
    place, too, for errors."""
    from pyspark.sql import functions as F

    kind = arrow_kind(ddl)

    def call(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for rows, partitions, offsets in batches:
            made = RowsMade(where, ddl, kind, lambda at, p=partitions, o=offsets: f"partition {p[at]}, offset {o[at]}")  # type: ignore[misc]
            yield made.of(work, rows.to_pylist(maps_as_pydicts="strict"))

    call_column: Any = F.arrow_udf(call, ddl).asNondeterministic()  # type: ignore[call-overload]
    return lambda row: call_column(row, *columns((PARTITION, OFFSET)))


@dataclasses.dataclass(frozen=True, slots=True)
class RowsMade:
    """The rows that a function makes of a batch of rows, or an error with the place."""

    where: str  # node and function
    ddl: str
    kind: pa.DataType
    place: Callable[[int], str]  # of a row of the batch

    def of(self, work: Callable[[Any], Any], rows: list[Any]) -> pa.Array:
        made: list[Any] = []
        try:
            made.extend(None if row is None else work(row) for row in rows)  # those before a failure stay
        except Exception as error:  # whatever the function does: its author needs to know where
            reason = f"{type(error).__name__}: {error}"
            raise StreamsError(f"{self.where} failed ({self.place(len(made))}): {reason}") from error
        try:
            return pa.array(made, self.kind)
        except _MISFITS as error:
            at = next((at for at, each in enumerate(made) if not self._fits(each)), 0)
            raise StreamsError(
                f"{self.where}: what the function returned does not fit {self.ddl} ({self.place(at)}): {error}"
            ) from error

    def _fits(self, made: Any) -> bool:
        try:
            pa.array([made], self.kind)
        except _MISFITS:
            return False
        return True


def row_caller(function: Callable[[Any], Any], row_type: type | None) -> Callable[[dict[str, Any]], Any]:
    make = row_maker(row_type)
    return lambda row: plain(function(make(row)))


def flat_caller(function: Callable[[Any], Any], row_type: type | None) -> Callable[[dict[str, Any]], Any]:
    make = row_maker(row_type)

    def call(row: dict[str, Any]) -> list[Any]:
        made: Iterable[Any] | None = function(make(row))
        return [] if made is None else [plain(each) for each in made]

    return call


def plain(made: Any) -> Any:
    """Values in Arrow's form: dicts for instances of dataclasses."""
    if dataclasses.is_dataclass(made) and not isinstance(made, type):
        return {each.name: plain(getattr(made, each.name)) for each in dataclasses.fields(made)}
    if isinstance(made, Mapping):
        return {name: plain(value) for name, value in made.items()}
    if isinstance(made, list | tuple | set | frozenset):
        return [plain(each) for each in made]
    return made


def row_maker(row_type: Any) -> Callable[[Any], Any]:
    """From what Arrow gives to what a function takes: dataclasses, also within lists and where None is allowed."""
    if isinstance(row_type, type) and dataclasses.is_dataclass(row_type):
        hints = typing.get_type_hints(row_type)
        makers = {each.name: row_maker(hints[each.name]) for each in dataclasses.fields(row_type) if each.init}

        def make(row: Any) -> Any:
            given = row.items() if row is not None else None
            return (
                None
                if given is None
                else row_type(**{name: makers[name](value) for name, value in given if name in makers})
            )

        return make
    arguments = typing.get_args(row_type)
    if typing.get_origin(row_type) is list and arguments:
        of_element = row_maker(arguments[0])
        return lambda some: None if some is None else [of_element(each) for each in some]
    if typing.get_origin(row_type) in (typing.Union, types.UnionType):
        classes = [each for each in arguments if each is not type(None)]
        return row_maker(classes[0]) if len(classes) == 1 else _as_it_is
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
