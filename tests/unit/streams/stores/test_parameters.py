"""What a request may say, and what it may not."""

from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.parameters import (
    KEY_NAMES,
    check_names,
    read_body,
    read_limit,
    read_patience,
    read_times,
)
from penstock.streams.stores.positions import missing, parse_position


@pytest.mark.parametrize("text", ["limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=", "limit=٣"])
def test_a_limit_is_refused_when_it_is_no_number(text: str) -> None:
    with pytest.raises(StoreError):
        read_limit(QueryParams(text))


@pytest.mark.parametrize(
    ("text", "limit"), [("", 100), ("limit=7", 7), ("limit=99999", 10_000), ("limit=" + "9" * 99, 10_000)]
)
def test_a_limit_is_at_most_a_page_when_it_is_huge(text: str, limit: int) -> None:
    assert read_limit(QueryParams(text)) == limit


def test_a_name_is_refused_when_nobody_knows_it_or_it_comes_twice() -> None:
    check_names(QueryParams("from=a&to=b"), KEY_NAMES)
    for text in ("form=a", "from=a&from=b"):
        with pytest.raises(StoreError):
            check_names(QueryParams(text), KEY_NAMES)


def test_times_are_milliseconds_or_iso_when_windows_are_asked_for() -> None:
    assert read_times(QueryParams("from=-5&to=1970-01-01T00:01:00Z")) == (-5, 60_000)
    assert read_times(QueryParams("from=1970-01-01T01:00:00+01:00")).first_ms == 0
    assert read_times(QueryParams("to=1970-01-01 00:00:01")).last_ms == 1_000
    with pytest.raises(StoreError):
        read_times(QueryParams("from=yesterday"))


def test_a_position_is_pairs_or_json_when_it_is_read() -> None:
    assert parse_position("0:12,1:7") == parse_position('{"0":12,"1":7}') == {0: 12, 1: 7}
    for text in ("0", "0:", "[1]", '{"a":1}', '{"0":"x"}', "0:1,", "[" * 5_000):
        with pytest.raises(StoreError):
            parse_position(text)
    assert missing({0: 5}, {0: 12, 1: 7}) == "partition 0 is at 5 of 12, there is no partition 1"


@pytest.mark.parametrize("text", ["wait=x", "wait=-1", "wait=nan", "wait=inf"])
def test_a_wait_is_refused_when_it_is_no_time(text: str) -> None:
    with pytest.raises(StoreError):
        read_patience(QueryParams(text))


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b'{"keys":1}', b'{"keys":[],"x":1}', b"[" * 99_999, b'{"\xff":1}'),
        b'{"keys":[' + b"1," * 1_000 + b"1]}",
        b'{"keys":[],"min_position":7}',
        b'{"keys":[],"min_position":{"a":1}}',
        b'{"keys":[],"wait":"x"}',
    ],
)
def test_a_body_is_refused_when_it_is_not_one_of_keys(body: bytes) -> None:
    with pytest.raises(StoreError):
        read_body(body)


def test_a_body_has_keys_of_any_kind_when_it_is_read() -> None:
    keys, patience = read_body(b'{"keys":["a",1,1.50,{"key":"a","start":0,"end":1}],"min_position":{"0":3},"wait":0.5}')
    assert [key.whole_text for key in keys] == [b'"a"', b"1", b"1.50", b'{"key":"a","start":0,"end":1}']
    assert (patience.position, patience.wait_s) == ({0: 3}, 0.5)
