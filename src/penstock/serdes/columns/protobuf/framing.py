"""Finds the message that a payload holds: by indexes in front of it, or in the header that names the schema."""

from __future__ import annotations

import numpy as np

from penstock.serdes.columns.payloads import Numbers, Payloads
from penstock.serdes.errors import FramingError, SerdesError
from penstock.serdes.framing import read_indexes
from penstock.serdes.protobuf import ProtobufCodec


class Indexes:
    """The frames of the one message that columns have."""

    def __init__(self, codec: ProtobufCodec, name: str) -> None:
        self._codec = codec
        self._name = name
        # Nearly all payloads have these.
        self._usual = codec.indexes(name) if codec.find(name) is not None else None

    def cut(self, payloads: Payloads, errors: dict[int, str]) -> tuple[Numbers, Payloads]:
        """The rows that hold the message, and their payloads without the indexes."""
        starts = payloads.starts.copy()
        is_good = np.ones(len(payloads), dtype=bool)
        codes = np.full(len(payloads), -1)
        if payloads.before is not None:
            encoded = payloads.before.dictionary_encode()
            codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            for code, header in enumerate(encoded.dictionary.to_pylist()):
                _, reason = self._size(header)
                which = np.flatnonzero(codes == code)
                if reason is not None:
                    errors.update(dict.fromkeys(which.tolist(), reason))
                    is_good[which] = False
        plain = codes < 0
        is_usual = plain & self._is_usual(payloads)
        starts[is_usual] += len(self._usual or b"")
        for row in np.flatnonzero(plain & ~is_usual).tolist():
            size, reason = self._size(payloads.row(row))
            starts[row] += size
            if reason is not None:
                errors[row] = reason
                is_good[row] = False
        rows = np.flatnonzero(is_good)
        return rows, Payloads(payloads.data, starts[rows], payloads.ends[rows])

    def _is_usual(self, payloads: Payloads) -> Numbers:
        found = np.zeros(len(payloads), dtype=bool)
        if self._usual is None:
            return found
        usual = np.frombuffer(self._usual, dtype=np.uint8)
        fits = np.flatnonzero(payloads.ends - payloads.starts >= len(usual))
        first = payloads.data[payloads.starts[fits][:, None] + np.arange(len(usual))]
        found[fits] = (first == usual).all(axis=1)
        return found

    def _size(self, data: bytes) -> tuple[int, str | None]:
        """The size of the indexes in bytes, and why they do not lead to the message."""
        try:
            indexes, size = read_indexes(data)
            name = self._codec.name_at(indexes)
            if name != self._name:
                raise FramingError(f"the payload has the message {name}, not {self._name}")
        except SerdesError as error:
            return 0, str(error)
        return size, None
