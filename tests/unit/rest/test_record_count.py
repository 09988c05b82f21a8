"""Records are counted before they are made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rest.v2.record_count import has_more_objects

VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["key", "value"]), VALUES), max_size=6), st.booleans())
def test_records_are_counted_when_braces_are_in_strings_and_in_values(records: list[Any], is_ascii: bool) -> None:
    body = json.dumps({"value_schema": '{"a": "\\\\"}', "records": records}, ensure_ascii=is_ascii).encode()
    assert not has_more_objects(body, len(records))
    if records:
        assert has_more_objects(body, len(records) - 1)


@pytest.mark.parametrize("body", [b"", b"{", b'{"a', b'{"a\\', b"}}}}{{{{", b'{"a":[{}', b"[1,2]", b'"' * 7])
def test_counting_ends_when_the_body_is_no_json(body: bytes) -> None:
    assert not has_more_objects(body, 1)
