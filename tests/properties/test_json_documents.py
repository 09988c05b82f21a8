"""A stream of JSON objects is cut in the same way wherever its chunks end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rest.v3.records.documents import CutError, Documents

_texts = st.text(alphabet=st.sampled_from('ab{}[]"\\ \n,:ä\U0001f600'), max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(_texts, _values, max_size=4)
_gaps = st.sampled_from([b"", b"\n", b" ", b"\r\n\t "])


@st.composite
def _streams(draw: st.DrawFn) -> tuple[list[object], bytes]:
    objects = draw(st.lists(_objects, max_size=6))
    stream = draw(_gaps)
    for each in objects:
        indent = draw(st.sampled_from([None, 2]))
        stream += json.dumps(each, ensure_ascii=draw(st.booleans()), indent=indent).encode() + draw(_gaps)
    return list(objects), stream


def _chunks(stream: bytes, data: st.DataObject) -> list[bytes]:
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=10).map(sorted))
    return [stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)]


@given(_streams(), st.data())
def test_the_objects_of_a_stream_are_the_same_when_its_chunks_end_anywhere(
    made: tuple[list[object], bytes], data: st.DataObject
) -> None:
    objects, stream = made
    documents = Documents(most_bytes=1 << 20)
    found = [json.loads(each) for chunk in _chunks(stream, data) for each in documents.cut(chunk)]
    documents.finish()
    assert found == objects


def _cut_all(chunks: list[bytes], most_bytes: int) -> tuple[list[bytes], str]:
    documents = Documents(most_bytes)
    found: list[bytes] = []
    try:
        for chunk in chunks:
            for document in documents.cut(chunk):
                found.append(document)  # noqa: PERF402  # those before a mistake count
        documents.finish()
    except CutError as error:
        return found, str(error)
    return found, ""


@given(st.binary(max_size=60) | st.text(alphabet='{}"\\ a', max_size=60).map(str.encode), st.data())
def test_anything_is_cut_alike_when_its_chunks_end_anywhere(stream: bytes, data: st.DataObject) -> None:
    whole = _cut_all([stream], most_bytes=20)
    assert _cut_all(_chunks(stream, data), most_bytes=20) == whole


def test_an_object_is_refused_when_it_grows_beyond_its_limit() -> None:
    documents = Documents(most_bytes=10)
    assert list(documents.cut(b'{"a":1}{"b":"')) == [b'{"a":1}']
    with pytest.raises(CutError) as refused:
        list(documents.cut(b"xxxxxxxx"))
    assert refused.value.is_too_large


def test_what_comes_before_a_mistake_is_cut_when_a_mistake_follows() -> None:
    documents = Documents(most_bytes=100)
    cut = documents.cut(b'{"a":1} 17 {"b":2}')
    assert next(cut) == b'{"a":1}'
    with pytest.raises(CutError, match="JSON object is expected"):
        next(cut)
    assert list(documents.cut(b'{"c":3}')) == []


@pytest.mark.parametrize("rest", [b"{", b'{"a', b'{"a\\', b'{"a":{}'])
def test_the_end_is_refused_when_an_object_has_not_ended(rest: bytes) -> None:
    documents = Documents(most_bytes=100)
    assert list(documents.cut(rest)) == []
    with pytest.raises(CutError, match="does not end"):
        documents.finish()
