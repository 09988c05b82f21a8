"""What librdkafka would read at the addresses that are laid out."""

from __future__ import annotations

import ctypes

import numpy as np
import pyarrow as pa
import pytest

from penstock.pipelines.topic_writing import librdkafka_c as c
from penstock.pipelines.topic_writing.layout import Calls, HeaderColumn, cells_of, lay_out, lay_out_calls

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def read(address: int, size: int) -> bytes | None:
    return ctypes.string_at(address, size) if address else None


def read_cells(column: pa.Array) -> list[bytes | None]:
    addresses, sizes = cells_of(column)
    return [read(address, size) for address, size in zip(addresses.tolist(), sizes.tolist(), strict=True)]


def read_calls(calls: Calls) -> list[list[tuple[object, ...]]]:
    """The arguments of each call: kind and content."""
    found = []
    for address, count in calls.each:
        arguments = np.frombuffer(ctypes.string_at(address, count * c.ARGUMENT.itemsize), c.ARGUMENT)
        found.append([_read_argument(argument) for argument in arguments])
    return found


def _read_argument(argument: np.void) -> tuple[object, ...]:
    kind, first = int(argument["kind"]), int(argument["first"])
    if kind == c.TOPIC:
        return (kind, ctypes.string_at(first))
    if kind in (c.PARTITION, c.FLAGS):
        return (kind, int(argument["number"]))
    if kind == c.HEADER:
        return (kind, ctypes.string_at(first), read(int(argument["second"]), int(argument["third"])))
    if kind == c.TIMESTAMP:
        return (kind, first)
    return (kind, read(first, int(argument["second"])))


@pytest.mark.parametrize("kind", TYPES)
def test_every_cell_is_found_when_some_are_null_or_empty(kind: pa.DataType) -> None:
    column = pa.array(["ä", None, "", "xyz", None], pa.string()).cast(kind)
    expected = ["ä".encode(), None, b"", b"xyz", None]
    assert read_cells(column) == expected
    assert read_cells(column.slice(1, 3)) == expected[1:4]
    assert read_cells(column.slice(2)) == expected[2:]
    assert read_cells(column.slice(5)) == []


@pytest.mark.parametrize("kind", TYPES)
def test_empty_cells_are_not_nulls_when_arrow_has_no_data_for_them(kind: pa.DataType) -> None:
    assert read_cells(pa.array(["", None, ""], pa.string()).cast(kind)) == [b"", None, b""]
    assert read_cells(pa.array([None, None], kind)) == [None, None]
    offsets = pa.array([0, 0, 0], pa.int64() if kind in TYPES[1::2] else pa.int32()).buffers()[1]
    assert read_cells(pa.Array.from_buffers(kind, 2, [None, offsets, pa.py_buffer(b"")])) == [b"", b""]


def test_messages_hold_value_and_key_when_laid_out() -> None:
    values, keys = pa.array([b"v1", None, b"v3"]), pa.array(["k1", "", None])
    messages = lay_out(values, keys)
    assert messages.itemsize == ctypes.sizeof(c.Message) == 72
    cells = (messages[name].tolist() for name in ("value", "value_size", "key", "key_size"))
    found = [(read(value, size), read(key, key_size)) for value, size, key, key_size in zip(*cells, strict=True)]
    assert found == [(b"v1", b"k1"), (None, b""), (b"v3", None)]
    assert lay_out(values, None)["key"].tolist() == [0, 0, 0]


def test_calls_hold_topic_partition_and_headers_when_laid_out() -> None:
    values = pa.array([b"v1", None, b"v3"])
    messages = lay_out(values, None)
    messages["partition"] = [4, -1, 0]
    for kind in (pa.string(), pa.large_string()):
        names = pa.array(["h", "other", "h"], kind)
        headers = HeaderColumn(np.array([2, 0, 1]), names, pa.array([b"\0x", None, b""]))
        calls = lay_out_calls(messages, ["a", "b"], np.array([1, 0, 1]), headers)
        assert read_calls(calls) == [
            [
                (c.TOPIC, b"b"),
                (c.PARTITION, 4),
                (c.FLAGS, c.COPY),
                (c.VALUE, b"v1"),
                (c.KEY, None),
                (c.HEADER, b"h", b"\0x"),
                (c.HEADER, b"other", None),
            ],
            [(c.TOPIC, b"a"), (c.PARTITION, -1), (c.FLAGS, c.COPY), (c.VALUE, None), (c.KEY, None)],
            [
                (c.TOPIC, b"b"),
                (c.PARTITION, 0),
                (c.FLAGS, c.COPY),
                (c.VALUE, b"v3"),
                (c.KEY, None),
                (c.HEADER, b"h", b""),
            ],
        ]
    assert [len(call) for call in read_calls(lay_out_calls(messages, ["a"], np.zeros(3, np.intp)))] == [5, 5, 5]


def test_a_call_holds_the_time_before_its_headers_when_rows_have_one() -> None:
    messages = lay_out(pa.array([b"v1", b"v2"]), None)
    headers = HeaderColumn(np.array([0, 1]), pa.array(["h"]), pa.array([b"x"]))
    times = np.array([0, 1_700_000_000_123], np.int64)
    first, second = read_calls(lay_out_calls(messages, ["a"], np.zeros(2, np.intp), headers, times))
    assert first[5:] == [(c.TIMESTAMP, 0)]
    assert second[5:] == [(c.TIMESTAMP, 1_700_000_000_123), (c.HEADER, b"h", b"x")]
