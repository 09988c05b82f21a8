from __future__ import annotations

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Sink
from penstock.pipelines.sinks.columns.hive import (
    TableColumns,
    add_partitions_statement,
    check_fit,
    create_statement,
    plan_columns,
)
from penstock.pipelines.sinks.hive import HiveTable

ROWS = {"Address": "string", "status": "int", "at": "timestamp"}
TABLE = TableColumns({"address": "string", "at": "timestamp", "status": "int"}, ("status",))


def test_partition_columns_come_last_when_a_table_is_created() -> None:
    columns = plan_columns(ROWS, ("status",), "fraud")
    assert columns.in_order == ["Address", "at", "status"]
    assert create_statement("web.fr`aud", columns, "ORC") == (
        "CREATE TABLE IF NOT EXISTS `web`.`fr``aud` (`Address` string, `at` timestamp) "
        "PARTITIONED BY (`status` int) STORED AS ORC"
    )
    assert "PARTITIONED" not in create_statement("t", plan_columns(ROWS, (), "t"), "PARQUET")


@pytest.mark.parametrize(
    ("rows", "partition_by", "said"),
    [
        (ROWS, ("code",), "by code, which the rows lack"),
        ({"a": "int"}, ("a",), "besides"),
        ({"a": "int", "A": "int"}, (), "case alone are one to Hive: a"),
    ],
)
def test_a_table_is_not_created_when_its_columns_cannot_work(
    rows: dict[str, str], partition_by: tuple[str, ...], said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        plan_columns(rows, partition_by, "t")


def test_every_wrong_column_is_named_when_more_than_case_and_order_differ() -> None:
    check_fit(ROWS, TABLE, ("status",), "fraud")
    with pytest.raises(PipelineError) as raised:
        check_fit({"address": "int", "status": "int", "agent": "string"}, TABLE, ("status",), "fraud")
    assert raised.value.message == (
        "the rows no longer fit the table fraud: agent is not in the table; at is missing from the rows; "
        "address is int and in the table string"
    )
    with pytest.raises(PipelineError, match="is partitioned by status, and the sink by nothing"):
        check_fit(ROWS, TABLE, (), "fraud")


def test_values_are_quoted_when_partitions_are_added() -> None:
    partitions: dict[str, dict[str, str | None]] = {"file:/t/a=1": {"a": "it's\\"}, "file:/t/a=2": {"a": None}}
    assert add_partitions_statement("t", partitions) == (
        "ALTER TABLE `t` ADD IF NOT EXISTS PARTITION (`a` = 'it\\'s\\\\') LOCATION 'file:/t/a=1' "
        "PARTITION (`a` = NULL) LOCATION 'file:/t/a=2'"
    )


def test_a_table_says_what_it_needs_of_the_session_when_asked() -> None:
    table = HiveTable("fraud", partition_by=("status",))
    assert isinstance(table, Sink)
    assert table.session_settings == {"spark.sql.catalogImplementation": "hive"}
    assert table.describe() == "Hive table fraud (parquet) by status, exactly once"
    assert table == HiveTable("fraud", partition_by=("status",))


@pytest.mark.parametrize("name", ["", "a.b.c", "a."])
def test_a_table_is_refused_when_its_name_cannot_be_one(name: str) -> None:
    with pytest.raises(PipelineError, match=r"database\.name"):
        HiveTable(name)
    with pytest.raises(PipelineError, match="parquet, orc"):
        HiveTable("t", format="csv")  # type: ignore[arg-type]
