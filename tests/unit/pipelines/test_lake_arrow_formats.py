from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import csv, fs, orc, parquet

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.arrow_formats import EXTENSIONS, avro_schema, open_writer, rewrite_files
from penstock.pipelines.sinks.files.object_store import ArrowTask, S3Location

AT = datetime.datetime(2024, 5, 1, 12, 30, 0, 250_000, datetime.UTC)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("small", pa.int16()),
        ("real", pa.float64()),
        ("yes", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
    ]
)
FULL: dict[str, Any] = {
    "text": 'é,"\n',
    "number": 2**60,
    "small": -3,
    "real": 0.5,
    "yes": True,
    "at": AT,
    "day": AT.date(),
    "price": decimal.Decimal("12.30"),
    "raw": b"\x00\xff",
}
EMPTY = dict.fromkeys(FULL)
ROWS = [FULL, EMPTY]


def written(directory: Path, kind: str, rows: pa.Table) -> Path:
    path = directory / f"rows{EXTENSIONS[kind]}"
    writer = open_writer(fs.LocalFileSystem(), str(path), kind, rows.schema)
    writer.write(rows.slice(0, 1))
    writer.write(rows.slice(1))
    writer.close()
    return path


def test_rows_come_back_when_written_as_parquet_orc_or_avro(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(ROWS, SCHEMA)
    assert parquet.read_table(written(tmp_path, "parquet", rows)).to_pylist() == ROWS
    assert orc.read_table(written(tmp_path, "orc", rows)).to_pylist() == ROWS
    with written(tmp_path, "avro", rows).open("rb") as file:
        assert list(fastavro.reader(file)) == ROWS


def test_nulls_are_left_out_when_written_as_json(tmp_path: Path) -> None:
    lines = written(tmp_path, "json", pa.Table.from_pylist(ROWS, SCHEMA)).read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[1]) == {}
    read = json.loads(lines[0])
    assert (read["text"], read["at"], read["day"]) == (FULL["text"], "2024-05-01T12:30:00.250000Z", "2024-05-01")
    assert (read["price"], read["raw"]) == (12.3, "AP8=")


def test_text_comes_back_when_written_as_csv(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([{"text": 'a,"\nb', "number": 1}, {"text": None, "number": None}])
    options = csv.ParseOptions(newlines_in_values=True)
    read = csv.read_csv(written(tmp_path, "csv", rows), parse_options=options)
    assert read.to_pylist() == [{"text": 'a,"\nb', "number": 1}, {"text": "", "number": None}]


def test_nested_rows_come_back_when_written_as_avro_or_json(tmp_path: Path) -> None:
    nested = pa.schema([("tags", pa.list_(pa.string())), ("place", pa.struct([("city", pa.string())]))])
    rows = [{"tags": ["a", None], "place": {"city": "x"}}, {"tags": None, "place": None}]
    table = pa.Table.from_pylist(rows, nested)
    with written(tmp_path, "avro", table).open("rb") as file:
        assert list(fastavro.reader(file)) == rows
    assert json.loads(written(tmp_path, "json", table).read_text(encoding="utf-8").splitlines()[0]) == rows[0]


def test_avro_is_refused_when_it_cannot_hold_a_column() -> None:
    with pytest.raises(PipelineError, match="length is duration"):
        avro_schema(pa.schema([("length", pa.duration("us"))]))


def test_a_task_fills_directories_when_rows_are_partitioned(tmp_path: Path) -> None:
    task = ArrowTask(S3Location(str(tmp_path), "lake"), "staging", "json", ("city", "status"), max_rows_per_file=2)
    for directory in ("city=a%2Fb/status=1", "city=__HIVE_DEFAULT_PARTITION__/status=1"):
        (tmp_path / "lake" / "staging" / directory).mkdir(parents=True)

    def batch(numbers: list[int], cities: list[str | None]) -> pa.RecordBatch:
        names = ["n", "_penstock_partition_0", "_penstock_partition_1"]
        return pa.RecordBatch.from_arrays(
            [pa.array(numbers), pa.array(cities, pa.string()), pa.array(["1"] * len(numbers))], names
        )

    batches = [batch([1, 2], [None, "a/b"]), batch([3, 4, 5], ["a/b"] * 3), batch([], [])]
    paths = list(task.write(fs.LocalFileSystem(), batches))
    found = [(path.rpartition("/")[0], (tmp_path / "lake/staging" / path).read_text().split("\n")) for path in paths]
    assert found == [
        ("city=__HIVE_DEFAULT_PARTITION__/status=1", ['{"n": 1}', ""]),
        ("city=a%2Fb/status=1", ['{"n": 2}', '{"n": 3}', ""]),
        ("city=a%2Fb/status=1", ['{"n": 4}', '{"n": 5}', ""]),
    ]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_rows_keep_their_order_and_new_columns_when_files_are_rewritten(tmp_path: Path, kind: str) -> None:
    local, old = fs.LocalFileSystem(), []
    for number, rows in enumerate([{"n": [1, 2]}, {"n": [3], "later": ["x"]}]):
        old.append(str(tmp_path / f"old-{number}"))
        writer = open_writer(local, old[-1], kind, pa.table(rows).schema)
        writer.write(pa.table(rows))
        writer.close()
    new = [str(tmp_path / "new-0"), str(tmp_path / "new-1")]
    rewrite_files(local, kind, old, new)
    read = [parquet.read_table(path) if kind == "parquet" else orc.read_table(path) for path in new]
    assert [table.num_rows for table in read] == [2, 1]
    assert pa.concat_tables(read).to_pylist() == [
        {"n": 1, "later": None},
        {"n": 2, "later": None},
        {"n": 3, "later": "x"},
    ]
