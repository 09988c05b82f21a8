"""Streams and tables, and their grouped forms.

Of a stream each row counts, of a table the last one of each key. They are in one module since each leads to the others:
a stream is grouped, a group is counted, the counts are a table, whose changes are a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.core.time.durations import Duration
from penstock.streams.builder.aggregates import Grouping, Named, add_cogroup, add_table_aggregate
from penstock.streams.builder.draft import TopologyDraft, rows_of_one
from penstock.streams.builder.joins import Side, join_node
from penstock.streams.builder.rows import (
    Rows,
    check_function,
    check_partitions,
    columns_text,
    type_of_columns,
)
from penstock.streams.topology.durations import positive_ms
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import check_expression, first_that_matches, named_expressions
from penstock.streams.topology.functions import Reducer
from penstock.streams.topology.graces import check_grace
from penstock.streams.topology.nodes import (
    KEY,
    Deduplicate,
    Expression,
    Filter,
    FlatMap,
    How,
    Merge,
    Peek,
    Process,
    Repartition,
    Retyped,
    SelectKey,
    Shape,
)
from penstock.streams.topology.windows import JoinWindow, Window


@dataclass(frozen=True, slots=True)
class Stream(Rows):
    def flat_map(self, array: Expression, into: str | None = "word", *, name: str | None = None) -> Stream:
        """A row for each element of an array, in the column `into`; with `into=None` an element is a struct whose
        fields are all columns."""
        check_expression(array, "flat_map()")
        return self._at(self.draft.add(FlatMap(self.draft.name("flat-map", name), (self.name,), array, into)))

    def flat_map_rows(
        self,
        function: Callable[[Any], Any],
        columns: str | type,
        *,
        takes: type | None = None,
        name: str | None = None,
    ) -> Stream:
        """As map_rows(), but the function gives any number of rows."""
        return self._map_rows("flat-map-rows", function, columns, takes, name)

    def select_key(self, key: Expression, *, name: str | None = None) -> Stream:
        check_expression(key, "select_key()")
        return self._at(
            self.draft.add(SelectKey(self.draft.name("select-key", name), (self.name,), key)), self.row_type
        )

    def merge(self, *others: Stream, name: str | None = None) -> Stream:
        """Rows of all of them, which have the same columns."""
        if not others:
            raise StreamsError("merge() got no other stream")
        for other in others:
            if not isinstance(other, Stream):
                raise StreamsError(f"merge() takes streams, not a {type(other).__name__}", "Use to_stream() before.")
        rows_of_one((self.draft, *(other.draft for other in others)))
        node = Merge(self.draft.name("merge", name), (self.name, *(other.name for other in others)))
        is_same = all(other.row_type is self.row_type for other in others)
        return self._at(self.draft.add(node), self.row_type if is_same else None)

    def split(self, *, rest: str | None = "rest", **conditions: Expression) -> dict[str, Stream]:
        """A stream for each condition, by its name: a row goes where the first condition holds, else to `rest`;
        `rest=None` drops it."""
        if not conditions:
            raise StreamsError(
                "split() got no conditions", "split(eu=\"country in ('DE', 'FR')\") makes `eu` and `rest`."
            )
        if rest in conditions:
            raise StreamsError(f"split() has two streams {rest!r}", "Call the others something else with rest=.")
        for each, condition in conditions.items():
            check_expression(condition, f"split(), {each}")
        firsts, none = first_that_matches(list(conditions.values()))
        found = dict(zip(conditions, firsts, strict=True)) | ({} if rest is None else {rest: none})
        split = self.draft.name("split")
        return {
            each: self._at(
                self.draft.add(Filter(self.draft.name("split", f"{split}-{each}"), (self.name,), condition)),
                self.row_type,
            )
            for each, condition in found.items()
        }

    def peek(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """Calls the function with each row, a dict, where the row is; a batch that comes again calls it again."""
        check_function(function, "peek()")
        return self._at(self.draft.add(Peek(self.draft.name("peek", name), (self.name,), function)), self.row_type)

    def repartition(self, name: str, partitions: int = 0) -> Stream:
        """Through a topic of the application's own."""
        check_partitions(partitions)
        node = Repartition(self.draft.name("repartition", name), (self.name,), partitions)
        return self._at(self.draft.add(node), self.row_type)

    def deduplicate(self, *columns: Expression, within: Duration, name: str | None = None) -> Stream:
        """The first of the rows that are equal in the columns, or in the key, within a time."""
        for each in columns:
            check_expression(each, "deduplicate()")
        within_ms = positive_ms(within, "`within` of deduplicate()")
        node = Deduplicate(self.draft.name("deduplicate", name), (self.name,), columns or (KEY,), within_ms)
        return self._at(self.draft.add(node), self.row_type)

    def group_by(self, *columns: Expression, **named: Expression) -> Grouped:
        """`group_by("country", day="date(at)")`. The key of the result is the only value, or a struct of them."""
        group = named_expressions("group_by()", columns, named)
        if not group:
            raise StreamsError(
                "group_by() got nothing to group by",
                'group_by("country"), group_by(day="date(at)"), or group_by_key().',
            )
        return Grouped(self.draft, self.name, group)

    def group_by_key(self) -> Grouped:
        return Grouped(self.draft, self.name)

    def join(
        self,
        other: Any,
        how: How = "inner",
        *,
        window: JoinWindow | None = None,
        on: Expression | None = None,
        name: str | None = None,
    ) -> Stream:
        """With a stream by key, within a window; with a table by key, as it is when the row comes; with a global table
        by key, or by the expression `on`."""
        side = side_of(other)
        rows_of_one((self.draft, other.draft))
        operator = {"stream": "stream-join", "table": "stream-table-join"}.get(side, "global-join")
        node = join_node(self.draft.name(operator, name), (("stream", self.name), (side, other.name)), how, window, on)
        check_grace(self.draft.current(), node)
        return self._at(self.draft.add(node))

    def process(self, processor: type, columns: str | type | None = None, name: str | None = None) -> Stream:
        """A class with state per key; see `penstock.streams.Processor`. `columns` are those of its rows; without them,
        the class has its own `columns`."""
        if not isinstance(processor, type):
            raise StreamsError(f"process() takes a class, not {processor!r}", "Give the class, not an object of it.")
        declared = getattr(processor, "columns", None) if columns is None else columns
        text = columns_text(declared, "process()")
        node = Process(self.draft.name("process", name), (self.name,), processor, text, row_type=self.row_type)
        check_grace(self.draft.current(), node)
        return self._at(self.draft.add(node), None if declared is None else type_of_columns(declared))

    def to_table(self, store: str | None = None, name: str | None = None) -> Table:
        """The last row of each key; a row without a value deletes it. With `store`, queries can read the table."""
        node = Retyped(self.draft.name("to-table", name), (self.name,), Shape.TABLE)
        table = Table(self.draft, self.draft.add(node), self.row_type)
        return table if store is None else table.store(store)


@dataclass(frozen=True, slots=True)
class GlobalTable:
    """A table that each task has whole. It is only joined with streams."""

    draft: TopologyDraft
    name: str
    row_type: type | None = None


@dataclass(frozen=True, slots=True)
class Table(Rows):
    def join(
        self,
        other: Any,
        how: How = "inner",
        on: Expression | None = None,
        *,
        window: JoinWindow | None = None,
        name: str | None = None,
    ) -> Table:
        """With another table by key; or, with `on`, by an expression over this table's row that gives the other's key.
        With a name, queries can read the result."""
        side = side_of(other)
        rows_of_one((self.draft, other.draft))
        operator = "table-join" if on is None else "foreign-key-join"
        node = join_node(self.draft.name(operator, name), (("table", self.name), (side, other.name)), how, window, on)
        table = Table(self.draft, self.draft.add(node))
        return table if name is None else table.store(name)

    def group_by(self, *columns: Expression, **named: Expression) -> GroupedTable:
        group = named_expressions("group_by()", columns, named)
        if not group:
            raise StreamsError(
                "group_by() got nothing to group by", 'group_by("country"), or group_by(day="date(at)").'
            )
        return GroupedTable(self.draft, self.name, group)

    def select_key(self, *_: Any, **__: Any) -> Self:
        raise StreamsError(
            "a table's key cannot be chosen anew: which row would be the last one of the new key?",
            "Use group_by() with an aggregate, or to_stream().select_key(...) and, if it is a table again, to_table().",
        )

    def to_stream(self, name: str | None = None) -> Stream:
        """The table's changes, as facts."""
        node = Retyped(self.draft.name("to-stream", name), (self.name,), Shape.STREAM)
        return Stream(self.draft, self.draft.add(node), self.row_type)

    def store(self, name: str) -> Self:
        """Makes the table a store, which queries can read. Returns the same table."""
        self.draft.add_store(self.name, name)
        return self


@dataclass(frozen=True, slots=True)
class Grouped(Grouping):
    """Rows of a stream by their key, or by something else."""

    def count(self, into: str = "count", name: str | None = None) -> Table:
        return Table(self.draft, self.add_aggregate("count", name, {into: "count(*)"}))

    def aggregate(self, name: str | None = None, **columns: Expression) -> Table:
        """SQL aggregates: `aggregate(total="sum(price)", last="max_by(price, _timestamp)")`."""
        return Table(self.draft, self.add_aggregate("aggregate", name, columns))

    def reduce(self, function: Callable[[Any, Any], Any], columns: str | type, name: str | None = None) -> Table:
        """A Python function of two rows that gives one; a key's first row is taken as it is."""
        check_function(function, "reduce()")
        return Table(
            self.draft, self.add_fold("reduce", name, Reducer(function), columns, None), type_of_columns(columns)
        )

    def fold(
        self,
        function: Callable[[Any, Any], Any],
        columns: str | type,
        initial: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Table:
        """A Python function (state, row) -> state, all of them dicts. A key's first state is `initial`, or None."""
        check_function(function, "fold()")
        first = None if initial is None else tuple(initial.items())
        return Table(self.draft, self.add_fold("fold", name, function, columns, first))

    def cogroup(self, **columns: Expression) -> Cogrouped:
        """The aggregates of this stream in a table to which others add theirs."""
        return Cogrouped(self.draft, ((self, tuple(columns.items())),), self)


@dataclass(frozen=True, slots=True)
class Cogrouped:
    """Several streams with the same keys, each with aggregates of its own, in one table."""

    draft: TopologyDraft
    members: tuple[tuple[Grouping, Named], ...]
    window: Grouping  # every member has its windows

    def cogroup(self, grouped: Grouped, /, **columns: Expression) -> Self:
        if not isinstance(grouped, Grouped):
            raise StreamsError(f"cogroup() takes a grouped stream, not a {type(grouped).__name__}")
        rows_of_one((self.draft, grouped.draft))
        names, first = [name for name, _ in grouped.group], [name for name, _ in self.members[0][0].group]
        if names != first:
            raise StreamsError(
                f"cogroup() of streams grouped by {first or 'their key'} and {names or 'their key'}",
                "Group all of them by columns of the same names, in the same order.",
            )
        return replace(self, members=(*self.members, (grouped, tuple(columns.items()))))

    def windowed(self, window: Window, final: bool | None = None) -> Self:
        return replace(self, window=self.window.windowed(window, final))

    def aggregate(self, name: str | None = None) -> Table:
        return Table(self.draft, add_cogroup(self.draft, name, self.members, self.window))


@dataclass(frozen=True, slots=True)
class GroupedTable:
    """Rows of a table by something else than their key. What a row gave is taken back when it changes."""

    draft: TopologyDraft
    name: str
    group: Named

    def count(self, into: str = "count", name: str | None = None) -> Table:
        columns = {into: "count(*)"}
        return Table(self.draft, add_table_aggregate(self.draft, self.name, self.group, "count", name, columns))

    def aggregate(self, name: str | None = None, **columns: Expression) -> Table:
        """count, sum, avg, min, max and collect_list, each of an expression."""
        return Table(self.draft, add_table_aggregate(self.draft, self.name, self.group, "aggregate", name, columns))

    def fold(
        self,
        add: Callable[[Any, Any], Any],
        columns: str | type,
        *,
        subtract: Callable[[Any, Any], Any],
        initial: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Table:
        """Python functions (state, row) -> state, all of them dicts: `add` for a row that joins the group, `subtract`
        for one that leaves it. A row that changes does both, in the order subtract, add. None deletes the group."""
        check_function(add, "fold()")
        check_function(subtract, "`subtract` of fold()")
        first = None if initial is None else tuple(initial.items())
        grouping = Grouping(self.draft, self.name, self.group)
        return Table(self.draft, grouping.add_fold("fold", name, add, columns, first, subtract))


def side_of(other: Any) -> Side:
    """The kind of the other side of a join, in the words of `joins`."""
    if isinstance(other, GlobalTable):
        return "global table"
    if isinstance(other, Table):
        return "table"
    if isinstance(other, Rows):
        return "stream"
    raise StreamsError(f"join() takes a stream or a table, not {other!r}")
