"""Whether rows still fit a table. Hive knows no upper case: names are compared without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sql_identifiers import quote


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Names and types as Spark writes them (`int`, `array<string>`), in the table's order; partition columns last."""

    types: Mapping[str, str]
    partition_by: tuple[str, ...]

    @property
    def in_files(self) -> Sequence[str]:
        return [name for name in self.types if name not in self.partition_by]

    @property
    def in_order(self) -> Sequence[str]:
        return [*self.in_files, *self.partition_by]


def plan_columns(rows: Mapping[str, str], partition_by: Sequence[str], table: str) -> TableColumns:
    """Plans the columns of a table that is to be created for the rows."""
    missing = [name for name in partition_by if name not in rows]
    if missing:
        raise PipelineError(f"the table {table} is to be partitioned by {', '.join(missing)}, which the rows lack")
    if set(rows) == set(partition_by):
        raise PipelineError(f"the table {table} needs a column besides those that it is partitioned by")
    lowered = [name.lower() for name in rows]
    twice = sorted({name for name in lowered if lowered.count(name) > 1})
    if twice:
        raise PipelineError(f"columns that differ in case alone are one to Hive: {', '.join(twice)}")
    ordered = [*(name for name in rows if name not in partition_by), *partition_by]
    return TableColumns({name: rows[name] for name in ordered}, tuple(partition_by))


def check_fit(rows: Mapping[str, str], columns: TableColumns, partition_by: Sequence[str], table: str) -> None:
    """Raises an error that names each column that is wrong; a table is never changed behind its owner's back."""
    if [name.lower() for name in partition_by] != [name.lower() for name in columns.partition_by]:
        raise PipelineError(
            f"the table {table} is partitioned by {_names(columns.partition_by)}, "
            f"and the sink by {_names(partition_by)}"
        )
    given = {name.lower(): kind for name, kind in rows.items()}
    wanted = {name.lower(): kind for name, kind in columns.types.items()}
    wrong = [f"{name} is not in the table" for name in given if name not in wanted]
    wrong += [f"{name} is missing from the rows" for name in wanted if name not in given]
    wrong += [
        f"{name} is {given[name]} and in the table {kind}"
        for name, kind in wanted.items()
        if name in given and given[name] != kind
    ]
    if wrong:
        raise PipelineError(
            f"the rows no longer fit the table {table}: {'; '.join(wrong)}",
            "Change the table (ALTER TABLE) or the steps before it, then start again: the batch is written then.",
        )


def create_statement(table: str, columns: TableColumns, stored_as: str) -> str:
    def listed(names: Sequence[str]) -> str:
        return ", ".join(f"{quote(name)} {columns.types[name]}" for name in names)

    by = f" PARTITIONED BY ({listed(columns.partition_by)})" if columns.partition_by else ""
    return f"CREATE TABLE IF NOT EXISTS {quoted_table(table)} ({listed(columns.in_files)}){by} STORED AS {stored_as}"


def add_partitions_statement(table: str, partitions: Mapping[str, Mapping[str, str | None]]) -> str:
    """`partitions`: the values of each by its location."""
    added = []
    for location, values in partitions.items():
        pairs = ", ".join(f"{quote(name)} = {literal(value)}" for name, value in values.items())
        added.append(f"PARTITION ({pairs}) LOCATION {literal(location)}")
    return f"ALTER TABLE {quoted_table(table)} ADD IF NOT EXISTS {' '.join(added)}"


def literal(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def quoted_table(table: str) -> str:
    return ".".join(quote(part) for part in table.split("."))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
