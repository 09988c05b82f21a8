"""Streams: rows each of which counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.streams.building.draft import rows_of_one
from penstock.streams.building.grouped import Grouped
from penstock.streams.building.joining import join_node
from penstock.streams.building.rows import (
    Rows,
    check_function,
    check_partitions,
    columns_text,
    type_of_columns,
)
from penstock.streams.building.tables import Table, side_of
from penstock.streams.topology.durations import Duration, positive_ms
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import check_expression, first_that_matches, named_expressions
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
from penstock.streams.topology.windows import JoinWindow


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
        by key, or by what `on` says."""
        side = side_of(other)
        rows_of_one((self.draft, other.draft))
        operator = {"stream": "stream-join", "table": "stream-table-join"}.get(side, "global-join")
        node = join_node(self.draft.name(operator, name), (("stream", self.name), (side, other.name)), how, window, on)
        check_grace(self.draft.current(), node)
        return self._at(self.draft.add(node))

    def process(self, processor: type, columns: str | type | None = None, name: str | None = None) -> Stream:
        """A class with state per key; see `penstock.streams.Processor`. `columns` is what comes out; without it, what
        the class says."""
        if not isinstance(processor, type):
            raise StreamsError(f"process() takes a class, not {processor!r}", "Give the class, not an object of it.")
        declared = getattr(processor, "columns", None) if columns is None else columns
        text = columns_text(declared, "process()")
        node = Process(self.draft.name("process", name), (self.name,), processor, text, row_type=self.row_type)
        check_grace(self.draft.current(), node)
        return self._at(self.draft.add(node), None if declared is None else type_of_columns(declared))

    def to_table(self, store: str | None = None, name: str | None = None) -> Table:
        """The last row of each key; a row without a value deletes it. With `store`, it can be asked for."""
        node = Retyped(self.draft.name("to-table", name), (self.name,), Shape.TABLE)
        table = Table(self.draft, self.draft.add(node), self.row_type)
        return table if store is None else table.store(store)
