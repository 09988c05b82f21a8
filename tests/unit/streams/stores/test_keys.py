"""Keys of stores: when two are the same, and in which order they are."""

from __future__ import annotations

import json

import pytest

from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.keys import Cursor, NotJsonError, bounds_of, candidates, parse_key

STRING, NUMBER = b"\x05", b"\x04"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'"DE"', b' "DE"\n'),
        ('"é"'.encode(), b'"\\u00e9"'),
        (b'{"a": 1, "b": [1, 2]}', b'{"a":1,"b":[1,2]}'),
        (b'{"key": "DE", "start": 0, "end": 5}', b'{"end":5,"start":0,"key":"DE"}'),
    ],
)
def test_keys_are_the_same_when_their_json_says_the_same(one: bytes, other: bytes) -> None:
    assert parse_key(one) == parse_key(other)


def test_keys_differ_when_numbers_are_written_otherwise() -> None:
    texts = (b"1", b"1.0", b"1.10", b"1.1", b'"1"', b"12345678901234567890.12", b"12345678901234567890.13")
    assert len({parse_key(text)[:3] for text in texts}) == len(texts)


def test_keys_are_in_order_when_bytes_are() -> None:
    texts = [
        b"null", b"false", b"true", b"-1e400", b"-9007199254740993", b"-9007199254740992", b"-10", b"-4.5", b"0",
        b"0.5", b"9", b"10", b"9007199254740992", b"9007199254740993", b"18446744073709551615", b"1e30", b"1e400",
        b'""', b'"10"', b'"9"', b'"a"', b'"a!"', b'"b"', '"é"'.encode(), '"😀"'.encode(), b'["a"]', b'{"a":1}',
    ]  # fmt: skip
    assert sorted(texts, key=lambda text: parse_key(text)[:3]) == texts


def test_a_windowed_key_is_a_key_and_two_times_when_it_has_no_other_fields() -> None:
    windowed = parse_key(b'{"key":{"a":1},"start":-5,"end":60000}')
    assert (windowed.text, windowed.start, windowed.end) == (b'{"a":1}', -5, 60000)
    assert json.loads(windowed.whole_text) == {"key": {"a": 1}, "start": -5, "end": 60000}
    for text in (b'{"key":1,"start":0}', b'{"key":1,"start":0.5,"end":1}', b'{"key":1,"start":true,"end":1}'):
        assert not parse_key(text).is_windowed


@pytest.mark.parametrize("data", [b"", b"DE", b'"a', b'"\xff"', b'"\\ud800"', b"[" * 100_000, b"NaN", b"\x00\x01"])
def test_a_key_is_refused_when_it_is_no_json(data: bytes) -> None:
    with pytest.raises(NotJsonError):
        parse_key(data)


def test_a_text_is_tried_as_a_string_and_then_as_json_when_it_may_be_both() -> None:
    assert [key.text for key in candidates("7")] == [b'"7"', b"7"]
    assert [key.text for key in candidates("DE")] == [b'"DE"']


def test_bounds_include_both_ends_when_keys_are_strings() -> None:
    first, behind = bounds_of(STRING, "b", "d", None)
    inside = [
        text for text in ("a", "b", "bb", "d", "da") if first <= parse_key(json.dumps(text).encode()).order < behind
    ]
    assert inside == ["b", "bb", "d"]


def test_bounds_go_by_value_when_keys_are_numbers() -> None:
    first, behind = bounds_of(NUMBER, "9", "10", None)
    inside = [
        text for text in (b"8.9", b"9", b"9.0", b"10", b"10.0", b"10.1") if first <= parse_key(text).order < behind
    ]
    assert inside == [b"9", b"9.0", b"10", b"10.0"]


def test_bounds_are_what_begins_with_it_when_a_prefix_is_given() -> None:
    first, behind = bounds_of(STRING, None, None, "é")
    inside = [
        text for text in ("e", "é", "éa", "é😀", "ê") if first <= parse_key(json.dumps(text).encode()).order < behind
    ]
    assert inside == ["é", "éa", "é😀"]


def test_bounds_are_refused_when_they_cannot_be_of_the_keys() -> None:
    for arguments in (("x", None, None), (None, "[", None), (None, None, "1")):
        with pytest.raises(StoreError):
            bounds_of(NUMBER, *arguments)


def test_a_place_is_the_same_when_it_was_told_and_given_back() -> None:
    place = Cursor(b"\x05\xff\x00k", -(1 << 63), 7)
    assert Cursor.decode(place.encode()) == place


@pytest.mark.parametrize("text", ["x", "====", "é", "AAAA", "A" * 5])
def test_a_place_is_refused_when_nobody_has_told_it(text: str) -> None:
    with pytest.raises(StoreError):
        Cursor.decode(text)
