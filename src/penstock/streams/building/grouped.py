"""Grouped rows: what can be counted, aggregated, reduced and folded, per key and per window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.streams.building.draft import Draft, rows_of_one
from penstock.streams.building.rows import check_function, columns_text
from penstock.streams.building.tables import Table
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import check_column_name, check_expression, known_aggregate
from penstock.streams.topology.functions import Reducer
from penstock.streams.topology.graces import check_grace
from penstock.streams.topology.nodes import WINDOW_END, WINDOW_START, Aggregate, Expression, Fold, Node, Shape
from penstock.streams.topology.windows import Window, WindowKind

Named = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of a stream by their key, or by `group`."""

    draft: Draft
    name: str  # of the node whose rows these are
    group: Named = ()  # nothing: by the key as it is
    window: Window | None = None
    is_final: bool = False

    def windowed(self, window: Window, final: bool = False) -> Self:
        """`final`: only results of windows that are closed, each once. Sessions are always final."""
        return replace(self, window=check_window(window), is_final=final or window.kind is WindowKind.SESSION)

    def count(self, into: str = "count", name: str | None = None) -> Table:
        return self._aggregate("count", name, {into: "count(*)"})

    def aggregate(self, name: str | None = None, **columns: Expression) -> Table:
        """SQL aggregates: `aggregate(total="sum(price)", last="max_by(price, _timestamp)")`."""
        return self._aggregate("aggregate", name, columns)

    def _aggregate(self, operator: str, name: str | None, columns: Mapping[str, Expression]) -> Table:
        found = aggregates(columns, self.group, self.window)
        node = Aggregate(
            self.draft.name(operator, name),
            (self.name,),
            (found,),
            (self.group,),
            window=self.window,
            is_final=self.is_final,
        )
        return add_table(self.draft, node, name)

    def reduce(self, function: Callable[[Any, Any], Any], columns: str | type, name: str | None = None) -> Table:
        """A Python function of two rows that gives one; a key's first row is taken as it is."""
        check_function(function, "reduce()")
        return self._fold("reduce", Reducer(function), columns, None, name)

    def fold(
        self,
        function: Callable[[Any, Any], Any],
        columns: str | type,
        initial: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Table:
        """A Python function (state, row) -> state, all of them dicts. A key's first state is `initial`, or None."""
        check_function(function, "fold()")
        return self._fold("fold", function, columns, None if initial is None else tuple(initial.items()), name)

    def _fold(
        self,
        operator: str,
        function: Callable[[Any, Any], Any],
        columns: str | type,
        initial: tuple[tuple[str, Any], ...] | None,
        name: str | None,
    ) -> Table:
        node = Fold(
            self.draft.name(operator, name),
            (self.name,),
            function,
            columns_text(columns, f"{operator}()"),
            initial,
            self.group,
            self.window,
            self.is_final,
        )
        return add_table(self.draft, node, name)

    def cogroup(self, **columns: Expression) -> Cogrouped:
        """The aggregates of this stream in a table to which others add theirs."""
        return Cogrouped(self.draft, (self,), (tuple(columns.items()),), self.window, self.is_final)


@dataclass(frozen=True, slots=True)
class Cogrouped:
    """Several streams with the same keys, each with aggregates of its own, in one table."""

    draft: Draft
    members: tuple[Grouped, ...]
    columns: tuple[Named, ...]
    window: Window | None = None
    is_final: bool = False

    def cogroup(self, grouped: Grouped, **columns: Expression) -> Self:
        if not isinstance(grouped, Grouped):
            raise StreamsError(f"cogroup() takes a grouped stream, not a {type(grouped).__name__}")
        rows_of_one((self.draft, grouped.draft))
        names, first = [name for name, _ in grouped.group], [name for name, _ in self.members[0].group]
        if names != first:
            raise StreamsError(
                f"cogroup() of streams grouped by {first or 'their key'} and {names or 'their key'}",
                "Group all of them by columns of the same names, in the same order.",
            )
        return replace(self, members=(*self.members, grouped), columns=(*self.columns, tuple(columns.items())))

    def windowed(self, window: Window, final: bool = False) -> Self:
        return replace(self, window=check_window(window), is_final=final or window.kind is WindowKind.SESSION)

    def aggregate(self, name: str | None = None) -> Table:
        seen: set[str] = set()
        columns = []
        for member, each in zip(self.members, self.columns, strict=True):
            found = aggregates(dict(each), member.group, self.window)
            for column, _ in found:
                if column in seen:
                    raise StreamsError(f"cogroup() has two columns {column!r}", "Give one of them another name.")
                seen.add(column)
            columns.append(found)
        node = Aggregate(
            self.draft.name("cogroup", name),
            tuple(member.name for member in self.members),
            tuple(columns),
            tuple(member.group for member in self.members),
            window=self.window,
            is_final=self.is_final,
        )
        return add_table(self.draft, node, name)


@dataclass(frozen=True, slots=True)
class GroupedTable:
    """Rows of a table by something else than their key. What a row gave is taken back when it changes."""

    draft: Draft
    name: str
    group: Named

    def count(self, into: str = "count", name: str | None = None) -> Table:
        return self._aggregate("count", name, {into: "count(*)"})

    def aggregate(self, name: str | None = None, **columns: Expression) -> Table:
        """count, sum, avg, min, max and collect_list, each of an expression."""
        return self._aggregate("aggregate", name, columns)

    def _aggregate(self, operator: str, name: str | None, columns: Mapping[str, Expression]) -> Table:
        found = aggregates(columns, self.group, None)
        for column, expression in found:
            known_aggregate(expression, f"an aggregate of a table ({column})")
        node = Aggregate(self.draft.name(operator, name), (self.name,), (found,), (self.group,), Shape.TABLE)
        return add_table(self.draft, node, name)


def add_table(draft: Draft, node: Node, store: str | None) -> Table:
    """The node's table; with a name it can be asked for."""
    check_grace(draft.current(), node)
    table = Table(draft, draft.add(node))
    return table if store is None else table.store(store)


def aggregates(columns: Mapping[str, Expression], group: Named, window: Window | None) -> Named:
    if not columns:
        raise StreamsError("an aggregate got no columns", 'aggregate(total="sum(price)") computes one.')
    taken = {name for name, _ in group} | ({WINDOW_START, WINDOW_END} if window else set())
    for name, expression in columns.items():
        check_expression(expression, f"the aggregate {name}")
        check_column_name(name, "an aggregate")
        if name in taken:
            raise StreamsError(
                f"the result would have two columns {name!r}: one of the group or window, one computed",
                "Give the computed one another name.",
            )
        if window and window.kind is WindowKind.SLIDING:
            known_aggregate(expression, f"a sliding window ({name})")
    return tuple(columns.items())


def check_window(window: Any) -> Window:
    if not isinstance(window, Window):
        raise StreamsError(
            f"windowed() takes a window, not {window!r}", "tumbling(), hopping(), sliding() and session() make one."
        )
    return window
