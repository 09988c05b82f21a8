"""Our codec against kafka-python's, which is written independently from the same definitions, and against hostile
bytes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
from collections.abc import Generator
from typing import Any

import hypothesis.strategies as st
import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
import pytest
from hypothesis import HealthCheck, given, settings

import penstock.protocol.messages
from penstock.protocol.codec import decode, decode_in_slices, encode, encode_in_slices
from penstock.protocol.errors import ApiError
from penstock.protocol.message import Message

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint16": 16, "uint32": 32}


def _messages() -> list[type[Message]]:
    found = []
    for module in pkgutil.iter_modules(penstock.protocol.messages.__path__):
        names = vars(importlib.import_module(f"penstock.protocol.messages.{module.name}"))
        found += [value for value in names.values() if isinstance(value, type) and issubclass(value, Message)]
    return [message for message in found if message.MAX_VERSION >= message.MIN_VERSION and message is not Message]


MESSAGES = _messages()
VERSIONS = [
    (message, version) for message in MESSAGES for version in range(message.MIN_VERSION, message.MAX_VERSION + 1)
]


def _scalars(kind: Any, version: int) -> st.SearchStrategy[Any]:
    return structs(kind, version) if isinstance(kind, type) else _plain(kind)


# Hypothesis takes longer to build and check a strategy than to draw from it.
@functools.cache
def _plain(kind: str) -> st.SearchStrategy[Any]:
    if kind in _INTEGERS:
        bits = _INTEGERS[kind] - 1
        return st.integers(-(2**bits), 2**bits - 1)
    if kind in _UNSIGNED:
        return st.integers(0, 2 ** _UNSIGNED[kind] - 1)
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "string": st.text(st.characters(codec="utf-8"), max_size=200),
        "bytes": st.binary(max_size=200),
        "records": st.binary(max_size=200),
        "uuid": st.binary(min_size=16, max_size=16),
    }[kind]


def structs(message: type[Message], version: int) -> st.SearchStrategy[Message]:
    # `functools.cache` takes no classes whose instances have no hash: so mypy says.
    if (message, version) not in _STRUCTS:
        _STRUCTS[message, version] = _structs(message, version)
    return _STRUCTS[message, version]


_STRUCTS: dict[tuple[type[Message], int], st.SearchStrategy[Message]] = {}


def _structs(message: type[Message], version: int) -> st.SearchStrategy[Message]:
    fields = {}
    for field in message.FIELDS:
        if not field.is_in(version) and not field.is_tagged(version):
            continue
        kind = field.kind
        values = st.lists(_scalars(kind[0], version), max_size=3) if isinstance(kind, list) else _scalars(kind, version)
        if field.is_nullable(version) and field.tagged is None:
            values = st.none() | values
        fields[field.attribute] = values
    return st.builds(message, **fields)


def _peer(message: type[Message]) -> Any:
    for module in (
        kafka.protocol.admin,
        kafka.protocol.consumer,
        kafka.protocol.metadata,
        kafka.protocol.producer,
        kafka.protocol.sasl,
    ):
        if hasattr(module, message.__name__):
            return getattr(module, message.__name__)
    return None


# ApiVersionsResponse is left out: kafka-python reads one with an error as version 0, whatever version it is.
_PEERED = [
    (message, version)
    for message, version in VERSIONS
    if message.__name__.endswith(("Request", "Response"))
    and message.__name__ != "ApiVersionsResponse"
    and _peer(message)
    and version <= _peer(message).max_version
]
TELLING_BYTES = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
ANY_PEERED, ANY_VERSION = st.sampled_from(_PEERED), st.sampled_from(VERSIONS)


def test_peer_knows_most_messages_when_counted() -> None:
    assert len(_PEERED) > 300


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_bytes_equal_those_of_an_independent_codec_when_any_message_is_encoded(data: st.DataObject) -> None:
    message_class, version = data.draw(ANY_PEERED)
    message = data.draw(structs(message_class, version))
    ours = encode(message, version)
    theirs = _peer(message_class).decode(ours, version=version)
    theirs._header = None
    assert bytes(theirs.encode(version=version)) == ours


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_message_is_unchanged_when_encoded_and_decoded(data: st.DataObject) -> None:
    message_class, version = data.draw(ANY_VERSION)
    encoded = encode(data.draw(structs(message_class, version)), version)
    assert encode(decode(message_class, encoded, version), version) == encoded


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_bytes_and_values_are_the_same_when_the_work_is_done_in_slices(data: st.DataObject) -> None:
    message_class, version = data.draw(ANY_VERSION)
    message = data.draw(structs(message_class, version))
    encoded = encode(message, version)
    assert b"".join(_run(encode_in_slices(message, version))) == encoded
    assert _run(decode_in_slices(message_class, encoded, version, 0)) == decode(message_class, encoded, version)


def _run(work: Generator[None, None, Any]) -> Any:
    try:
        while True:
            next(work)
    except StopIteration as stop:
        return stop.value


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_decoder_answers_or_refuses_when_bytes_are_mutated(data: st.DataObject) -> None:
    message_class, version = data.draw(ANY_VERSION)
    encoded = bytearray(encode(data.draw(structs(message_class, version)), version))
    for _ in range(data.draw(st.integers(1, 4))):
        if encoded:
            position = data.draw(st.integers(0, len(encoded) - 1))
            encoded[position] = data.draw(TELLING_BYTES)
    del encoded[data.draw(st.integers(0, len(encoded))) :]
    with contextlib.suppress(ApiError):
        decode(message_class, bytes(encoded), version)


@pytest.mark.parametrize("version", [0, 9, 13])
def test_array_is_refused_before_memory_is_taken_when_its_count_lies(version: int) -> None:
    from penstock.protocol.messages.metadata import MetadataRequest

    count = b"\xff\xff\xff\xff\x07" if version >= 9 else b"\x7f\xff\xff\xff"
    with pytest.raises(ApiError, match="longer than its data"):
        decode(MetadataRequest, count + bytes(16), version)
