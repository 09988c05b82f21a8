from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Sink
from penstock.pipelines.sinks.files.object_store import parse_location
from penstock.pipelines.sinks.files.partition_names import directory_of, is_hidden, values_of
from penstock.pipelines.sinks.lake import Lake

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)


@given(st.dictionaries(TEXT, st.none() | TEXT, min_size=1, max_size=3))
def test_values_come_back_when_a_directory_is_named_by_them(values: dict[str, str | None]) -> None:
    directory = directory_of(list(values), list(values.values()))
    assert directory.count("/") == len(values) - 1
    assert values_of(directory) == values


def test_names_are_those_of_hive_when_values_are_unusual() -> None:
    assert directory_of(["a", "b"], ["x/y=z:%", None]) == "a=x%2Fy%3Dz%3A%25/b=__HIVE_DEFAULT_PARTITION__"
    assert directory_of(["a"], ["é ,&"]) == "a=é ,&"
    assert directory_of(["a"], [""]) == "a=__HIVE_DEFAULT_PARTITION__"
    assert directory_of([], []) == ""


@pytest.mark.parametrize(
    ("path", "hidden"),
    [("_penstock/x", True), ("a/.x.crc", True), ("_SUCCESS", True), ("_day=1/x", False), ("a=_b/x", False)],
)
def test_readers_pass_over_a_path_when_it_is_hidden(path: str, hidden: bool) -> None:
    assert is_hidden(path) is hidden


def test_credentials_stay_unsaid_when_a_lake_is_described() -> None:
    lake = Lake("s3://bucket/some/where?access_key=me&secret_key=hush", date_column="at", partition_by=("status",))
    assert isinstance(lake, Sink)
    assert lake.name == "where"
    assert lake.describe() == "parquet files in s3://bucket/some/where by date, status, exactly once"
    assert "hush" not in repr(lake) + repr(parse_location(lake.path)) + lake.describe()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": ""}, "needs a path"),
        ({"path": "x", "format": "xml"}, "parquet, orc, avro, json, csv, not 'xml'"),
        ({"path": "x", "target_bytes": 0}, "target_bytes"),
        ({"path": "x", "max_rows_per_file": -1}, "max_rows_per_file"),
        ({"path": "s3://b/x", "options": {"compression": "gzip"}}, "options"),
    ],
)
def test_a_lake_is_refused_when_an_argument_cannot_work(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        Lake(**arguments)  # type: ignore[arg-type]


def test_a_location_in_s3_is_refused_when_it_says_what_is_not_known() -> None:
    location = parse_location("s3://bucket/a%20b/c/?endpoint=http://127.0.0.1:9000&region=here")
    assert (location.root, dict(location.options)["region"]) == ("bucket/a b/c", "here")
    with pytest.raises(PipelineError, match="endpont is not known"):
        parse_location("s3://bucket/?endpont=x")
    with pytest.raises(PipelineError, match="no bucket"):
        parse_location("s3:///x")
