"""The common part of streams and tables: a place in a draft, and the operators without state that both know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Self

from penstock.streams.builder.draft import TopologyDraft
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import check_expression, named_expressions
from penstock.streams.topology.formats import Format, json
from penstock.streams.topology.nodes import Expression, Filter, Map, MapRows, Sink
from penstock.streams.topology.row_types import columns_of

NO_CONFIG: Mapping[str, str] = MappingProxyType({})
AS_JSON = json()


@dataclass(frozen=True, slots=True)
class Rows:
    draft: TopologyDraft
    name: str  # of the node that makes the rows
    # The dataclass whose fields the columns are, where one is known: functions see rows as it.
    row_type: type | None = None

    def filter(self, condition: Expression, *, name: str | None = None) -> Self:
        """In a table, rows that are left out become deletions."""
        return self._filter("filter", condition, name, is_negated=False)

    def filter_not(self, condition: Expression, *, name: str | None = None) -> Self:
        return self._filter("filter-not", condition, name, is_negated=True)

    def _filter(self, operator: str, condition: Expression, name: str | None, *, is_negated: bool) -> Self:
        check_expression(condition, f"the condition of {operator}")
        name = self.draft.name(operator, name)
        return self._at(self.draft.add(Filter(name, (self.name,), condition, is_negated)), self.row_type)

    def map(self, **columns: Expression) -> Self:
        """Adds columns, or replaces those of the same name."""
        if not columns:
            raise StreamsError(
                "map() got no columns", 'map(total="price * amount") adds one; map_rows() takes a function.'
            )
        found = named_expressions("map()", (), columns)
        return self._at(self.draft.add(Map(self.draft.name("map"), (self.name,), found)))

    def select(self, *positional: Expression, **columns: Expression) -> Self:
        """These are all columns then: `select("user", "price * amount AS total")`."""
        found = named_expressions("select()", positional, columns)
        if not found:
            raise StreamsError("select() got no columns", 'select("user", "price * amount AS total") keeps two.')
        return self._at(self.draft.add(Map(self.draft.name("select"), (self.name,), found, is_whole=True)))

    def map_rows(
        self,
        function: Callable[[Any], Any],
        columns: str | type,
        *,
        takes: type | None = None,
        name: str | None = None,
    ) -> Self:
        """A Python function from a row to a row. `columns` is what comes out, DDL or a dataclass; `takes` the dataclass
        that the function gets, `dict` for a dict; without it: what the rows were declared as, else a dict."""
        return self._map_rows("map-rows", function, columns, takes, name)

    def _map_rows(
        self, operator: str, function: Callable[[Any], Any], columns: str | type, takes: type | None, name: str | None
    ) -> Self:
        check_function(function, operator)
        node = MapRows(
            self.draft.name(operator, name),
            (self.name,),
            function,
            columns_text(columns, operator),
            row_type_taken(self.row_type, takes, operator),
            is_flat=operator == "flat-map-rows",
        )
        return self._at(self.draft.add(node), type_of_columns(columns))

    def to(
        self,
        topic: str,
        *,
        key: Format | None = None,
        value: Format = AS_JSON,
        partitions: int = 0,
        config: Mapping[str, str] = NO_CONFIG,
        partition: Expression | None = None,
        topic_of: Expression | None = None,
        name: str | None = None,
    ) -> None:
        """Writes the rows. `partitions` and `config` are of the topic if it has to be made. Without `key`: text, bytes
        or JSON, as the key's type asks for. `partition` is the number of the partition, from 0; where it is null, or
        not given, the key decides. `topic_of` is the name of the topic for each row; where it is null the row goes to
        `topic`. Topics that are so chosen have to exist."""
        for each in (key, value):
            if each is not None and not isinstance(each, Format):
                raise StreamsError(f"{each!r} is no format", "json(), text(), raw() and registry() make one.")
        check_partitions(partitions)
        name = self.draft.name_by_topic("to", topic, name)
        settings = tuple(sorted((str(key), str(value)) for key, value in config.items()))
        for what, given in (("partition", partition), ("topic_of", topic_of)):
            if given is not None:
                check_expression(given, f"`{what}` of to()")
        self.draft.add(Sink(name, (self.name,), topic, key, value, partitions, settings, partition, topic_of))

    def _at(self, name: str, row_type: type | None = None) -> Self:
        return replace(self, name=name, row_type=row_type)


def check_partitions(partitions: Any) -> None:
    if not isinstance(partitions, int) or partitions < 0:
        raise StreamsError(f"{partitions!r} is no number of partitions", "0 takes as many as the largest source has.")


def check_function(function: Any, where: str) -> None:
    if not callable(function):
        raise StreamsError(
            f"{where} takes a function, not {function!r}", "Expressions go into map(), filter(), select()."
        )


def columns_text(columns: Any, where: str) -> str:
    """DDL, of DDL or a dataclass."""
    if isinstance(columns, str):
        if columns.strip():
            return columns.strip()
    elif columns is not None:
        return columns_of(columns)
    raise StreamsError(f"{where} needs the columns that come out", 'DDL, "user string, total double", or a dataclass.')


def type_of_columns(columns: str | type) -> type | None:
    return None if isinstance(columns, str) else columns


def row_type_taken(declared: type | None, takes: Any, where: str) -> type | None:
    if takes is None or takes is dict:
        return None if takes is dict else declared
    if not (isinstance(takes, type) and is_dataclass(takes)):
        raise StreamsError(f"{where} takes rows as {takes!r}, which is no dataclass", "Give a dataclass, or dict.")
    return takes
