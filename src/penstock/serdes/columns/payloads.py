"""The places of a batch's payloads, and the schema that each was written with.

Only the whole buffer is copied, once: rows are places in it. The buffer ends in zeros, so a step that reads a few bytes
too far reads zeros, and notices afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers: TypeAlias = "npt.NDArray[Any]"
# The name of a schema: its id, or its guid where headers have that.
SchemaKey: TypeAlias = "int | str"

# More bytes than any step reads without a check: a number has 10 bytes, a decimal 16.
ZEROS = 32
_PREFIX = 5
_GUID_HEADER = 17


@dataclass(frozen=True, slots=True)
class Payloads:
    """Rows in one buffer, in the order of the buffer."""

    data: Numbers
    starts: Numbers
    ends: Numbers
    # The bytes behind the guid in the header of each row: the message indexes of Protobuf. None: they precede the
    # payload.
    before: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def zeros(self) -> int:
        """The start of the zeros behind the last payload."""
        return len(self.data) - ZEROS

    def rows(self, which: Numbers) -> Payloads:
        before = self.before.take(pa.array(which)) if self.before is not None else None
        return replace(self, starts=self.starts[which], ends=self.ends[which], before=before)

    def row(self, index: int) -> bytes:
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    def pieces(self) -> Iterator[bytes]:
        """The payloads one by one."""
        if not len(self):
            return
        first = int(self.starts[0])
        whole = self.data[first : int(self.ends[-1])].tobytes()
        for start, end in zip((self.starts - first).tolist(), (self.ends - first).tolist(), strict=True):
            yield whole[start:end]

    def binary(self) -> pa.Array:
        """The payloads as an array of their own."""
        return cut(self.data, self.starts, self.ends)


def cut(data: Numbers, starts: Numbers, ends: Numbers) -> pa.Array:
    """Pieces of a buffer, in the order of the buffer, as a BinaryArray.

    The bytes between two pieces are a piece too, so the offsets are an Arrow array as it stands, and Arrow copies every
    second piece. An index for each byte, as numpy needs it, takes eight times the memory.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pieces.take(pa.array(np.arange(0, 2 * count, 2)))


@dataclass(frozen=True, slots=True)
class Framed:
    """The rows of a batch that name a schema, by schema, and the errors of the others."""

    payloads: Payloads
    groups: dict[SchemaKey, Numbers]
    errors: dict[int, str]


def read_frames(values: pa.Array, headers: pa.Array | None = None) -> Framed:
    """`headers` has the value of the header that names the schema, for each row; rows without one are framed."""
    payloads, is_null = places(values)
    starts, ends = payloads.starts, payloads.ends
    has_header = np.zeros(len(starts), dtype=bool)
    groups: dict[SchemaKey, Numbers] = {}
    errors: dict[int, str] = {}
    before: pa.Array | None = None
    if headers is not None and headers.null_count < len(headers):
        has_header = headers.is_valid().to_numpy(zero_copy_only=False) & ~is_null
        before = _read_headers(headers, has_header, groups, errors)
    _note(errors, is_null, lambda row: "the record has no value")
    plain = ~is_null & ~has_header
    framed = plain & (ends - starts >= _PREFIX) & (payloads.data[starts] == 0)
    _note(errors, plain & ~framed, _no_frame(starts, ends))
    rows = np.flatnonzero(framed)
    ids = payloads.data[starts[rows][:, None] + np.arange(1, _PREFIX)].view(">u4").reshape(-1)
    for key, which in _grouped(ids):
        groups[key] = np.union1d(groups[key], rows[which]) if key in groups else rows[which]
    starts = np.where(framed, starts + _PREFIX, starts)
    return Framed(replace(payloads, starts=starts, before=before), groups, errors)


def places(values: pa.Array) -> tuple[Payloads, Numbers]:
    """The rows of an array of bytes, without regard to frames, and the null ones among them."""
    if values.type != pa.binary():
        values = values.cast(pa.binary())
    count = len(values)
    _, offsets_buffer, data_buffer = values.buffers()
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    if not count:
        empty = np.zeros(0, dtype=np.int64)
        return Payloads(np.zeros(ZEROS, dtype=np.uint8), empty, empty), is_null
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + ZEROS, dtype=np.uint8)
    if last > first:
        data[:-ZEROS] = np.frombuffer(data_buffer, dtype=np.uint8)[first:last]
    offsets -= first
    return Payloads(data, offsets[:-1], offsets[1:]), is_null


def _grouped(ids: Numbers) -> list[tuple[int, Numbers]]:
    if not len(ids):
        return []
    if (ids == ids[0]).all():  # nearly all batches
        return [(int(ids[0]), np.arange(len(ids)))]
    found, which = np.unique(ids, return_inverse=True)
    order = np.argsort(which, kind="stable")
    borders = np.searchsorted(which[order], np.arange(1, len(found)))
    return [(int(key), rows) for key, rows in zip(found, np.split(order, borders), strict=True)]


def _no_frame(starts: Numbers, ends: Numbers) -> Callable[[int], str]:
    def text(row: int) -> str:
        size = int(ends[row] - starts[row])
        if size < _PREFIX:
            return f"the payload has {size} bytes, and a zero byte and the id of a schema are {_PREFIX}"
        return "the payload does not begin with a zero byte and the id of a schema"

    return text


def _note(errors: dict[int, str], which: Numbers, text: Callable[[int], str]) -> None:
    for row in np.flatnonzero(which).tolist():
        errors[row] = text(row)


def _read_headers(
    headers: pa.Array, has_header: Numbers, groups: dict[SchemaKey, Numbers], errors: dict[int, str]
) -> pa.Array:
    """Groups by the few values that headers have. The bytes behind the guid or the id are kept for each row."""
    encoded = headers.cast(pa.binary()).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    rests: list[bytes | None] = []
    rows: dict[SchemaKey, list[Numbers]] = {}
    for code, header in enumerate(encoded.dictionary.to_pylist()):
        which = np.flatnonzero((codes == code) & has_header)
        key, rest = _header_key(header)
        rests.append(rest)
        if key is None:
            text = "the header that names the schema has neither a guid nor an id"
            errors.update(dict.fromkeys(which.tolist(), text))
        elif len(which):
            rows.setdefault(key, []).append(which)
    groups.update({key: np.sort(np.concatenate(parts)) for key, parts in rows.items()})
    return pa.array(rests, pa.binary()).take(encoded.indices)


def _header_key(header: bytes) -> tuple[SchemaKey | None, bytes | None]:
    if header[:1] == b"\x01" and len(header) >= _GUID_HEADER:
        return str(UUID(bytes=header[1:_GUID_HEADER])), header[_GUID_HEADER:]
    if header[:1] == b"\x00" and len(header) >= _PREFIX:
        return int.from_bytes(header[1:_PREFIX]), header[_PREFIX:]
    return None, None
