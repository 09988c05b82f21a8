"""Tables: rows of which the last one of each key counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from penstock.streams.building.draft import Draft, rows_of_one
from penstock.streams.building.joining import join_node
from penstock.streams.building.rows import Rows
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import named_expressions
from penstock.streams.topology.nodes import Expression, How, Retyped, Shape
from penstock.streams.topology.windows import JoinWindow

if TYPE_CHECKING:
    from penstock.streams.building.grouped import GroupedTable
    from penstock.streams.building.streams import Stream


@dataclass(frozen=True, slots=True)
class GlobalTable:
    """A table that each task has whole. It is only joined with streams."""

    draft: Draft
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
        """With another table by key; or, with `on`, by what an expression over this table's row says is the other's
        key. With a name, the result can be asked for."""
        side = side_of(other)
        rows_of_one((self.draft, other.draft))
        operator = "table-join" if on is None else "foreign-key-join"
        node = join_node(self.draft.name(operator, name), (("table", self.name), (side, other.name)), how, window, on)
        table = Table(self.draft, self.draft.add(node))
        return table if name is None else table.store(name)

    def group_by(self, *columns: Expression, **named: Expression) -> GroupedTable:
        from penstock.streams.building.grouped import GroupedTable

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
        from penstock.streams.building.streams import Stream

        node = Retyped(self.draft.name("to-stream", name), (self.name,), Shape.STREAM)
        return Stream(self.draft, self.draft.add(node), self.row_type)

    def store(self, name: str) -> Self:
        """Makes the table something that can be asked for. The same table."""
        self.draft.add_store(self.name, name)
        return self


def side_of(other: Any) -> Any:
    """What the other side of a join is, in the words of `joining`."""
    if isinstance(other, GlobalTable):
        return "global table"
    if isinstance(other, Table):
        return "table"
    if isinstance(other, Rows):
        return "stream"
    raise StreamsError(f"join() takes a stream or a table, not {other!r}")
