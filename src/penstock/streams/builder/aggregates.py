"""The common part of grouped rows: the nodes that count, aggregate and fold them, and the checks of these nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.streams.builder.draft import TopologyDraft
from penstock.streams.builder.rows import columns_text
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import check_column_name, check_expression, known_aggregate
from penstock.streams.topology.graces import check_grace
from penstock.streams.topology.nodes import WINDOW_END, WINDOW_START, Aggregate, Expression, Fold, Shape
from penstock.streams.topology.windows import Window, WindowKind

Named = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rows by their key or by `group`, in windows or not."""

    draft: TopologyDraft
    name: str  # of the node that makes the rows
    group: Named = ()  # nothing: by the key as it is
    window: Window | None = None
    is_final: bool = False

    def windowed(self, window: Window, final: bool | None = None) -> Self:
        """`final`: only results of windows that are closed, each once. Sessions are final unless it is False, which
        reduce() and fold() can be."""
        is_session = check_window(window).kind is WindowKind.SESSION
        return replace(self, window=window, is_final=is_session if final is None else final)

    def add_aggregate(self, operator: str, name: str | None, columns: Mapping[str, Expression]) -> str:
        found = aggregates(columns, self.group, self.window)
        check_sessions(self)
        node = Aggregate(
            self.draft.name(operator, name),
            (self.name,),
            (found,),
            (self.group,),
            window=self.window,
            is_final=self.is_final,
        )
        return add_checked(self.draft, node, name)

    def add_fold(
        self,
        operator: str,
        name: str | None,
        function: Callable[[Any, Any], Any],
        columns: str | type,
        initial: tuple[tuple[str, Any], ...] | None,
        subtract: Callable[[Any, Any], Any] | None = None,
    ) -> str:
        node = Fold(
            self.draft.name(operator, name),
            (self.name,),
            function,
            columns_text(columns, f"{operator}()"),
            initial,
            self.group,
            self.window,
            self.is_final,
            subtract,
        )
        return add_checked(self.draft, node, name)


def add_cogroup(
    draft: TopologyDraft, name: str | None, members: tuple[tuple[Grouping, Named], ...], window: Grouping
) -> str:
    """One table of several streams; all have the windows of `window`."""
    check_sessions(window)
    seen: set[str] = set()
    columns = []
    for member, own in members:
        found = aggregates(dict(own), member.group, window.window)
        for column, _ in found:
            if column in seen:
                raise StreamsError(f"cogroup() has two columns {column!r}", "Give one of them another name.")
            seen.add(column)
        columns.append(found)
    node = Aggregate(
        draft.name("cogroup", name),
        tuple(member.name for member, _ in members),
        tuple(columns),
        tuple(member.group for member, _ in members),
        window=window.window,
        is_final=window.is_final,
    )
    return add_checked(draft, node, name)


def add_table_aggregate(
    draft: TopologyDraft, table: str, group: Named, operator: str, name: str | None, columns: Mapping[str, Expression]
) -> str:
    found = aggregates(columns, group, None)
    for column, expression in found:
        known_aggregate(expression, f"an aggregate of a table ({column})")
    return add_checked(draft, Aggregate(draft.name(operator, name), (table,), (found,), (group,), Shape.TABLE), name)


def add_checked(draft: TopologyDraft, node: Aggregate | Fold, store: str | None) -> str:
    """If the author names the table, queries can read it as a store."""
    check_grace(draft.current(), node)
    name = draft.add(node)
    if store is not None:
        draft.add_store(name, store)
    return name


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


def check_sessions(grouping: Grouping) -> None:
    window = grouping.window
    if window is not None and window.kind is WindowKind.SESSION and not grouping.is_final:
        raise StreamsError(
            "Spark's aggregates tell a session once, when it is closed",
            "Use reduce() or fold() for sessions that are told with each change, or leave out final=False.",
        )


def check_window(window: Any) -> Window:
    if not isinstance(window, Window):
        raise StreamsError(
            f"windowed() takes a window, not {window!r}", "tumbling(), hopping(), sliding() and session() make one."
        )
    return window
