"""The nodes of a topology: frozen, plain values. `builder` makes them, `planner` reads them, `lowering` runs them.

Rows between nodes are columns of a frame: those of the value, and these, which every frame has:

    _key        the record's key, of any type; null where the record has none. Of a windowed result a struct of
                `key`, `start` and `end` (milliseconds since 1970)
    _timestamp  the time of the event: the record's, or what `time` of its source says
    _null       whether the record has no value; the value's columns are null then. In a table: the key is deleted
    _partition  of the record that the row came from (of merged topics: a number that no partition of another topic has;
                with a pattern among them: a hash, which two partitions seldom share); with
    _offset     it orders the rows of one key. Windowed and aggregated rows have the largest of what they were made of

and `_headers`, where the source has asked for headers, until the first stateful node. A field of a value that has one
of these names gets `_` behind.

Names are identity: a node's name is unique in its topology, and state is kept under it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from penstock.streams.topology.formats import Format
from penstock.streams.topology.topic_choice import TopicChoice
from penstock.streams.topology.windows import JoinWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import Column

# SQL over the columns of a row, or a Column of Spark.
Expression: TypeAlias = "str | Column"
How: TypeAlias = Literal["inner", "left", "outer"]
KEY, TIMESTAMP, NULL, PARTITION, OFFSET, HEADERS = "_key", "_timestamp", "_null", "_partition", "_offset", "_headers"
OURS = (KEY, TIMESTAMP, NULL, PARTITION, OFFSET, HEADERS)
WINDOW_START, WINDOW_END = "window_start", "window_end"


class Shape(StrEnum):
    """The meaning of several rows with one key."""

    STREAM = "stream"  # facts: each counts
    TABLE = "table"  # changes: the last one counts


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    inputs: tuple[str, ...]  # names of nodes


@dataclass(frozen=True, slots=True)
class Source(Node):
    """A topic or, of a stream, a pattern of topics. A global table is read whole by every task and is only joined."""

    topic: TopicChoice
    key: Format
    value: Format
    shape: Shape = Shape.STREAM
    is_global: bool = False
    time: str | None = None  # a column, or SQL, of type timestamp; None: the record's timestamp
    grace_ms: int | None = None  # for windows and joins without their own
    start: str = "earliest"
    with_headers: bool = False
    fail_on_data_loss: bool = True  # where records are gone before they were read, or a topic is
    refresh_ms: int = 1000  # of a global table: how old a task's copy may be

    @property
    def only_topic(self) -> str:
        """Of a source that is no pattern: a table, or a stream whose subject in the registry has no name of its own."""
        assert isinstance(self.topic, str), f"{self.name} reads {self.topic}"
        return self.topic


# Without state. Input and output have the same shape.


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """Of a table: a row that is left out becomes a deletion."""

    condition: Expression
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Map(Node):
    """Columns that are added or replaced; with `is_whole` these are all of the value. A null value stays null."""

    columns: tuple[tuple[str, Expression], ...]
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class MapRows(Node):
    """A Python function from a row to a row, or (`is_flat`, streams only) to many. Not called for null values."""

    function: Callable[[Any], Any]
    columns: str  # DDL of what comes out
    row_type: type | None = None  # a dataclass that the function takes; None: a dict
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class FlatMap(Node):
    """A row for each element of an array (SQL), in the column `into`, or instead of all columns if it is a struct and
    `into` is None."""

    array: Expression
    into: str | None


@dataclass(frozen=True, slots=True)
class SelectKey(Node):
    """Streams only."""

    key: Expression


@dataclass(frozen=True, slots=True)
class Merge(Node):
    """Streams with the same columns."""


@dataclass(frozen=True, slots=True)
class Peek(Node):
    """Called with each row (a dict) where the row is; what it returns is left out."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Repartition(Node):
    """A topic in between, whatever the plan needs; `<app>-<name>-repartition`."""

    partitions: int = 0  # 0: as many as the largest source has


@dataclass(frozen=True, slots=True)
class Retyped(Node):
    """to_table, to_stream: the same rows, with another meaning. A stream's null values are deletions of the table."""

    shape: Shape


# With state.


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """SQL aggregates per key. Rows with a null key, or of a stream a null value, do not count. Gives a table.

    Several inputs: a cogroup; each has its own `columns`. Of a stream without `window`: Spark's own aggregate, mode
    update. Of a table: the part of a row is taken back when the row changes; only count, sum, avg, min, max,
    collect_list.
    Columns of the result: `group` (names with the expressions whose struct, or only value, is the key), then the
    window's bounds, then the aggregates."""

    columns: tuple[tuple[tuple[str, Expression], ...], ...]  # per input: name, SQL aggregate
    # Per input; empty: by the key as it is (it has no column of its own then).
    group: tuple[tuple[tuple[str, Expression], ...], ...]
    input_shape: Shape = Shape.STREAM
    window: Window | None = None
    is_final: bool = False  # only results of windows that are closed


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """A Python function (state or None, row) -> state per key and window, both dicts. Gives a table. Of a state its
    columns alone are kept. None deletes the key.

    Of a stream, or, with `subtract`, of a table: a second function of the same kind takes back what a row gave, when
    the row changes, moves to another group or is deleted. It is not called where there is no state."""

    function: Callable[[Any, Any], Any]
    columns: str  # DDL of the state, which is the result
    initial: tuple[tuple[str, Any], ...] | None
    group: tuple[tuple[str, Expression], ...]
    window: Window | None = None
    is_final: bool = False
    subtract: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class StreamJoin(Node):
    """Two streams by key, within a window. Columns of both; those of the right that the left has, too, get `_right`
    behind. Time: the larger one's."""

    how: How
    window: JoinWindow


@dataclass(frozen=True, slots=True)
class StreamTableJoin(Node):
    """The table's row as it is when the stream's row comes. Inputs: stream, table (which may be global)."""

    how: Literal["inner", "left"]
    key: Expression | None = None  # of a global table: what is looked up; None: the stream's key


@dataclass(frozen=True, slots=True)
class TableJoin(Node):
    """Two tables by key. Gives a table. Time: the larger one's."""

    how: How


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin(Node):
    """A table with another one, by an expression over the left row that gives the right's key."""

    how: Literal["inner", "left"]
    foreign_key: Expression


@dataclass(frozen=True, slots=True)
class Deduplicate(Node):
    """The first of the rows that are equal in the columns, within a time. Streams only."""

    columns: tuple[Expression, ...]
    within_ms: int


@dataclass(frozen=True, slots=True)
class Process(Node):
    """A class of the user's, one instance per task, with state per key."""

    processor: type
    columns: str  # DDL of what comes out
    shape: Shape = Shape.STREAM
    row_type: type | None = None  # a dataclass that the class sees as row; None: a dict


# Ends.


@dataclass(frozen=True, slots=True)
class Sink(Node):
    """A topic. Tables write a null value where a key is deleted."""

    topic: str
    key: Format | None  # None: text, bytes, or JSON, as the key's type asks for
    value: Format
    partitions: int = 0  # of the topic if it has to be made; 0: as many as the largest source has
    config: tuple[tuple[str, str], ...] = ()
    partition: Expression | None = None  # where a record goes; null, or None: by its key
    topic_of: Expression | None = None  # which topic a record goes to; null, or None: to `topic`


@dataclass(frozen=True, slots=True)
class Store(Node):
    """A table that queries can read: `<app>-<name>-changelog`, compacted. Its input is an Aggregate, a Fold, a
    TableJoin, a ForeignKeyJoin or any other table; `store` is its name for readers."""

    store: str


@dataclass(frozen=True, slots=True)
class Topology:
    application: str
    nodes: tuple[Node, ...]  # inputs before the nodes that take them
    dead_letters: str | None = None  # a topic for records that do not decode; None: the run fails

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def users(self, name: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if name in node.inputs)
