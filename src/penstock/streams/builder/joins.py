"""Joins: the pairs that can be joined, and the checks of their options."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import check_expression
from penstock.streams.topology.nodes import (
    Expression,
    ForeignKeyJoin,
    How,
    Node,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
)
from penstock.streams.topology.windows import JoinWindow

Side = Literal["stream", "table", "global table"]
# The possible `how` of a join, by its two sides; pairs that are not here do not join.
KINDS: dict[tuple[Side, Side], tuple[str, ...]] = {
    ("stream", "stream"): ("inner", "left", "outer"),
    ("stream", "table"): ("inner", "left"),
    ("stream", "global table"): ("inner", "left"),
    ("table", "table"): ("inner", "left", "outer"),
}
_REFUSED: dict[tuple[Side, Side], str] = {
    ("table", "stream"): "Join the other way round, stream.join(table), or make a table of the stream with to_table().",
    ("table", "global table"): "Read the topic as a table: app.table(...); or join a stream with the global table.",
}


def join_node(
    name: str,
    sides: tuple[tuple[Side, str], tuple[Side, str]],
    how: How,
    window: JoinWindow | None,
    on: Expression | None,
) -> Node:
    (left, left_name), (right, right_name) = sides
    _check_how(left, right, how)
    if on is not None:
        check_expression(on, "`on` of a join")
    inputs = (left_name, right_name)
    match left, right:
        case "stream", "stream":
            return StreamJoin(name, inputs, how, _window_of_streams(window, on))
        case "stream", "table":
            _refuse(window, on, "Rows of a stream and a table meet by key: use select_key() before, or a global table.")
            return StreamTableJoin(name, inputs, _without_outer(how))
        case "stream", _:
            _refuse(window, None, "")
            return StreamTableJoin(name, inputs, _without_outer(how), on)
        case _:
            _refuse(window, None, "")
            if on is None:
                return TableJoin(name, inputs, how)
            return ForeignKeyJoin(name, inputs, _foreign(how), on)


def _check_how(left: Side, right: Side, how: Any) -> None:
    if (left, right) not in KINDS:
        raise StreamsError(f"a {left} does not join a {right}", _REFUSED.get((left, right), ""))
    if how not in KINDS[left, right]:
        allowed = ", ".join(KINDS[left, right])
        raise StreamsError(f"a {left} does not join a {right} {how!r}", f"{allowed} are possible.")


def _window_of_streams(window: JoinWindow | None, on: Expression | None) -> JoinWindow:
    if on is not None:
        raise StreamsError("two streams join by their keys, not `on` something", "Use select_key() on both before.")
    if not isinstance(window, JoinWindow):
        raise StreamsError(
            "a join of two streams needs a window",
            'Say how far apart in time two rows may be: window=within("10 minutes").',
        )
    return window


def _refuse(window: JoinWindow | None, on: Expression | None, hint: str) -> None:
    if window is not None:
        raise StreamsError(
            "only a join of two streams has a window", "A table's row counts until it changes: leave it out."
        )
    if on is not None:
        raise StreamsError("a join of a stream and a table has no `on`", hint)


def _without_outer(how: How) -> Literal["inner", "left"]:
    return "left" if how == "left" else "inner"


def _foreign(how: How) -> Literal["inner", "left"]:
    if how == "outer":
        _no_outer_by_foreign_key()
    return _without_outer(how)


def _no_outer_by_foreign_key() -> NoReturn:
    raise StreamsError("a join by a foreign key is not 'outer'", "inner, left are possible, as in Kafka Streams.")
