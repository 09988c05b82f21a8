"""Expressions: their names, their text, and those that a table's aggregate can take back.

A table's aggregate has to undo what a row gave when the row changes, and a sliding window is kept by a function of our
own: both know a few aggregates only, each by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import OURS, Expression

if TYPE_CHECKING:
    from pyspark.sql import Column

KNOWN_AGGREGATES = ("count", "sum", "avg", "min", "max", "collect_list")
_NAMED = re.compile(r"(?P<expression>.+)\s+as\s+(?P<name>[A-Za-z_]\w*|`[^`]+`)\s*", re.IGNORECASE | re.DOTALL)
_PATH = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<last>[A-Za-z_]\w*)")
_CALL = re.compile(r"\s*(?P<function>[A-Za-z_]\w*)\s*\((?P<argument>.*)\)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class KnownAggregate:
    function: str  # one of KNOWN_AGGREGATES
    argument: str  # SQL over a row; "*" of count(*)


def is_column(value: Any) -> bool:
    """Whether it is a Column of Spark, found without importing Spark."""
    return any(each.__name__ == "Column" and each.__module__.startswith("pyspark.sql") for each in type(value).__mro__)


def expression_text(expression: Expression) -> str:
    """For people, and for recognising the expression later."""
    if isinstance(expression, str):
        return " ".join(expression.split())
    return str(expression).removeprefix("Column<'").removesuffix("'>")


def check_expression(expression: Any, where: str) -> Expression:
    if is_column(expression) or (isinstance(expression, str) and expression.strip()):
        return expression  # type: ignore[no-any-return]
    hint = "Write SQL over the columns, or a Column of Spark."
    if callable(expression):
        hint = "Write SQL over the columns, or a Column of Spark; map_rows() takes a function."
    raise StreamsError(f"{where} is no expression: {expression!r}", hint)


def check_column_name(name: str, where: str) -> str:
    if name in OURS:
        raise StreamsError(f"{where} cannot make a column {name!r}: every row has one of ours", "Choose another name.")
    return name


def named_expressions(
    where: str, positional: tuple[Expression, ...], named: Mapping[str, Expression]
) -> tuple[tuple[str, Expression], ...]:
    """`"country"`, `"user.country"` (named country), `"date(at) AS day"`, and day="date(at)", each with its name."""
    found: dict[str, Expression] = {}
    for name, expression in (*(_with_name(each, where) for each in positional), *named.items()):
        check_expression(expression, f"{where}, {name}")
        if name in found:
            raise StreamsError(f"{where} has two columns {name!r}", "Give one of them another name.")
        found[check_column_name(name, where)] = expression
    return tuple(found.items())


def _with_name(expression: Expression, where: str) -> tuple[str, Expression]:
    check_expression(expression, where)
    if isinstance(expression, str):
        if found := _NAMED.fullmatch(expression.strip()):
            return found["name"].strip("`"), found["expression"].strip()
        if found := _PATH.fullmatch(expression.strip()):
            return found["last"], expression.strip()
    raise StreamsError(
        f"{where} needs a name for {expression_text(expression)!r}",
        'Write "... AS name", or name="...".',
    )


def known_aggregate(expression: Expression, where: str) -> KnownAggregate:
    """The aggregate's parts; raises where it is none of the few."""
    hint = f"{', '.join(KNOWN_AGGREGATES)} of an expression can be. Compute with the results in a map() behind."
    text = expression_text(expression)
    call = _CALL.fullmatch(expression if isinstance(expression, str) else text)  # white space may be a text's
    if is_column(expression):
        raise StreamsError(f"{where} takes its aggregates as SQL, not as Columns: {text}", hint)
    if call is None or not _closes_at_end(call["argument"]):
        raise StreamsError(f"{where} cannot compute {text!r}", hint)
    function, argument = call["function"].lower(), call["argument"].strip()
    function = {"mean": "avg", "array_agg": "collect_list"}.get(function, function)
    is_plain = argument and not re.match(r"(distinct|all)\b", argument, re.IGNORECASE)
    if function not in KNOWN_AGGREGATES or not is_plain or (argument == "*" and function != "count"):
        raise StreamsError(f"{where} cannot compute {text!r}", hint)
    return KnownAggregate(function, argument)


def _closes_at_end(argument: str) -> bool:
    """Whether the parentheses of "f(" + argument + ")" belong to each other, as those of "f(a) / g(b)" do not."""
    depth = 0
    quoted = ""
    for letter in argument:
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"`":
            quoted = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth < 0:
                return False
    return depth == 0 and not quoted


def first_that_matches(conditions: list[Expression]) -> tuple[list[Expression], Expression]:
    """For each condition: it holds, and none before it; then: none holds. A condition that is null does not hold."""
    if all(isinstance(each, str) for each in conditions):
        texts = [f"coalesce(({each}), false)" for each in conditions]
        each_first: list[Expression] = [
            " AND ".join([*(f"NOT {other}" for other in texts[:at]), text]) for at, text in enumerate(texts)
        ]
        return each_first, " AND ".join(f"NOT {text}" for text in texts)
    from pyspark.sql import functions

    columns: list[Column] = [
        functions.coalesce(functions.expr(each) if isinstance(each, str) else each, functions.lit(False))
        for each in conditions
    ]
    found: list[Expression] = []
    none_yet: Column = functions.lit(True)
    for column in columns:
        found.append(none_yet & column)
        none_yet = none_yet & ~column
    return found, none_yet
