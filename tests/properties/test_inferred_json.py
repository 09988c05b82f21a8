"""Columns inferred from JSON objects: every object of the sample decodes to what `json` says of it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from penstock.pipelines.payloads.decoding import open_decoder
from penstock.pipelines.payloads.formats import json_format
from penstock.pipelines.payloads.spark_types import spark_type
from penstock.pipelines.tables.type_inference import infer_type

NAMES = st.sampled_from(["a", "b", "c", "ä", "A", ""])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def _check(kind: pa.DataType, found: Any, value: Any) -> None:
    """Text holds text as it is, and the JSON of anything else."""
    if found is None or value is None:
        assert found is None
        assert value is None
    elif pa.types.is_struct(kind):
        assert found.keys() == {field.name for field in kind}
        for field in kind:
            _check(field.type, found[field.name], value.get(field.name))
    elif pa.types.is_list(kind):
        assert len(found) == len(value)
        for one, other in zip(found, value, strict=True):
            _check(kind.value_type, one, other)
    elif pa.types.is_string(kind) and not isinstance(value, str):
        assert json.loads(found) == value
    else:
        assert found == (float(value) if pa.types.is_floating(kind) else value)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=6))
def test_objects_decode_to_what_json_says_when_their_type_is_inferred_from_them(objects: list[dict[str, Any]]) -> None:
    kind = infer_type(objects)
    if not kind.num_fields:
        return
    columns = spark_type(kind)
    assert isinstance(columns, StructType)
    payloads = pa.array([json.dumps(each).encode() for each in objects], pa.binary())
    decoded = open_decoder(json_format(columns), is_key=False).decode(payloads)
    assert decoded.errors.null_count == len(objects), decoded.errors.to_pylist()
    for found, value in zip(decoded.values.to_pylist(), objects, strict=True):
        _check(kind, found, json.loads(json.dumps(value)))
