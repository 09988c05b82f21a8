"""Topics as tables by `format("penstock")`: the option `table` names one, and its columns are decoded while it is read.

CREATE TEMPORARY VIEW orders USING penstock
OPTIONS (table 'orders', 'kafka.bootstrap.servers' 'localhost:9092', 'registry.url' 'http://localhost:8081')

The columns are looked up once, when Spark asks for the schema. Options that `table_options` made bring the table along,
and nothing is looked up at all. What is read, and from where to where, is a matter of the same options and readers as
without a table.

Filters are not pushed down here, with spark.sql.python.filterPushdown.enabled or without: Spark 4.3 keeps what a Python
reader made of them with the relation, which a view shares among questions. A question without filters would be read
with those of the question before. `Tables.sql` bounds what is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.pipelines.errors import TableError
from penstock.pipelines.options import TABLE_OPTIONS, OptionError, OptionScope, ParsedOptions, parse_options
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.source.cluster import SourceCluster
from penstock.pipelines.source.read_options import SourceOptions, parse_source_options
from penstock.pipelines.source.reader import BatchReader
from penstock.pipelines.source.stream_reader import StreamReader
from penstock.pipelines.source.tasks import TopicRanges, plan_tasks
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.definition import read_table, write_table
from penstock.pipelines.tables.scan import TableScan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from penstock.pipelines.source.offset_ranges import OffsetRange
    from penstock.pipelines.tables.table import Table

_REGISTRY = "schema.registry."
_OUR_NAMES = frozenset(option.name.lower() for option in TABLE_OPTIONS)
_ISOLATION = "kafka.isolation.level"


def table_options(connection: KafkaConnection, table: Table) -> dict[str, str]:
    """Options for `spark.read` or `spark.readStream`; the table travels in them, so nothing is looked up again.
    Secrets are among those that begin with kafka. and registry., and in no other."""
    registry = () if connection.registry is None else connection.registry.properties
    options = {f"kafka.{name}": value for name, value in connection.kafka.items()}
    options |= {f"registry.{name.removeprefix(_REGISTRY)}": text for name, text in registry}
    if table.topic in connection.subjects:
        options["subject"] = connection.subjects[table.topic]
    return options | {
        "kafka.bootstrap.servers": connection.bootstrap_servers,
        _ISOLATION: "read_committed" if connection.is_read_committed else "read_uncommitted",
        "badRows": connection.bad_rows,
        "table": table.name,
        "tableDefinition": write_table(table),
    }


def is_table(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "table" for name in options)


def find_table(given: Mapping[str, str]) -> Table:
    """The table that the options name, brought along by them or looked up. OptionError, TableError."""
    options = parse_options(_for_any_place(given), OptionScope.BATCH_READ)
    connection = connection_of(options)
    if options.given("tableDefinition"):
        return read_table(options["tableDefinition"], connection.registry)
    with Catalog(connection) as catalog:
        return catalog.table(options["table"])


def connection_of(options: ParsedOptions) -> KafkaConnection:
    kafka = dict(options.kafka)
    is_read_committed = kafka.pop("isolation.level", "read_committed").lower() != "read_uncommitted"
    return KafkaConnection(
        kafka.pop("bootstrap.servers"),
        kafka,
        RegistryAddress.of(options.registry) if options.registry else None,
        bad_rows=options["badRows"],
        is_read_committed=is_read_committed,
        subjects={options["table"].removesuffix("$latest"): options["subject"]} if options.given("subject") else {},
    )


def open_batch_reader(given: Mapping[str, str], table: Table, schema: StructType) -> DataSourceReader:
    return TableReader(_plan_read(given, OptionScope.BATCH_READ, table, schema))


def open_stream_reader(given: Mapping[str, str], table: Table, schema: StructType) -> TableStreamReader:
    if table.is_latest:
        raise OptionError(
            f"option table is {table.name!r}; a stream has no latest record of a key, use {table.topic!r}"
        )
    return TableStreamReader(_plan_read(given, OptionScope.STREAM_READ, table, schema))


@dataclass(frozen=True, slots=True)
class DecodedRead:
    """The common part of both kinds of reader: travels to the executors."""

    options: SourceOptions
    table: Table
    columns: tuple[str, ...]
    bad_rows: Any

    def read(self, parts: Iterator[OffsetRange]) -> Iterator[pa.RecordBatch]:
        scan = TableScan(self.table, self.columns, (tuple(parts),), self.options.fetch, self.bad_rows)
        return scan.read_task(0)


class TableReader(DataSourceReader):
    def __init__(self, read: DecodedRead) -> None:
        self._read = read

    def partitions(self) -> list[InputPartition]:
        read = self._read
        with closing(SourceCluster.of(read.options)) as cluster:
            ranges = BatchReader(read.options).find_ranges(cluster)
        if read.table.is_latest:
            # Only a task that has read all records knows the latest record of a key.
            return [TopicRanges(ranges)] if ranges else []
        return plan_tasks(ranges, read.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TopicRanges):
            return iter(())  # Spark puts a partition of its own where there are none: nothing is to be read
        return self._read.read(partition.offsets)


class TableStreamReader(StreamReader):
    def __init__(self, read: DecodedRead) -> None:
        super().__init__(read.options)
        self._table_read = read

    def __reduce__(self) -> tuple[type[TableStreamReader], tuple[DecodedRead]]:  # type: ignore[override]
        return TableStreamReader, (self._table_read,)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TopicRanges)
        return self._table_read.read(partition.offsets)


def _plan_read(given: Mapping[str, str], place: OptionScope, table: Table, schema: StructType) -> DecodedRead:
    bad_rows = parse_options(given, place)["badRows"]
    options = parse_source_options(_without_table(given, table), place)
    return DecodedRead(options, table, _columns_of(table, schema), bad_rows)


def _columns_of(table: Table, schema: StructType) -> tuple[str, ...]:
    """Spark wants all columns, or those of a schema that the reader was given."""
    there = {field.name: field.dataType for field in table.spark_schema().fields}
    for field in schema.fields:
        if field.name not in there:
            raise TableError(f"the table {table.name} has no column {field.name}", f"It has {', '.join(there)}.")
        if field.dataType != there[field.name]:
            is_, asked = there[field.name].simpleString(), field.dataType.simpleString()
            raise TableError(f"the column {field.name} of table {table.name} is {is_}, not {asked}")
    return tuple(field.name for field in schema.fields)


def _without_table(given: Mapping[str, str], table: Table) -> dict[str, str]:
    """The options of the same read without decoding."""
    lowered = {name.lower(): text for name, text in given.items()}
    for name in ("subscribe", "subscribepattern", "assign", "includeheaders"):
        if name in lowered:
            raise OptionError(f"option {name} cannot be given together with table; the table is its topic")
    kept = {name: text for name, text in lowered.items() if name not in _OUR_NAMES and not name.startswith("registry.")}
    return {_ISOLATION: "read_committed", **kept, "subscribe": table.topic}


def _for_any_place(given: Mapping[str, str]) -> dict[str, str]:
    """The options that find the table: Spark wants its columns before it names their use."""
    lowered = {name.lower(): text for name, text in given.items()}
    prefixes = ("kafka.", "registry.")
    wanted = _OUR_NAMES | {"kafkaconfigfile"}
    return {name: text for name, text in lowered.items() if name in wanted or name.startswith(prefixes)}
