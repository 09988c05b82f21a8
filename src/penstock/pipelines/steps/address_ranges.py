"""Ranges of IPv4 addresses, given as first octets ("91") or CIDR blocks ("10.0.0.0/8"), one a line."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class AddressRanges:
    """A lookup: is an address in one of the ranges? What is not an address is in none."""

    blocks: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "boolean"

    @classmethod
    def from_file(cls, path: str | Path) -> AddressRanges:
        """Empty lines and what follows a # do not count."""
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise PipelineError(f"the ranges cannot be read: {error}") from error
        blocks = [line.partition("#")[0].strip() for line in lines]
        for number, block in enumerate(blocks, 1):
            if block and not _is_block(block):
                raise PipelineError(f"{path}, line {number}: {block!r} is neither a first octet nor a CIDR block")
        return cls(tuple(block for block in blocks if block))

    def open(self, kind: pa.DataType) -> AddressTable:
        return AddressTable(self.blocks)


class AddressTable:
    """Disjoint ranges, sorted, searched by halving."""

    def __init__(self, blocks: tuple[str, ...]) -> None:
        import numpy as np

        joined = list(ipaddress.collapse_addresses(_network(block) for block in blocks))
        self._starts = np.array([int(network.network_address) for network in joined], dtype=np.int64)
        self._ends = np.array([int(network.broadcast_address) for network in joined], dtype=np.int64)

    def find(self, keys: pa.Array) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        numbers, known = _numbers(keys)
        if not len(self._starts):
            return pa.array(np.zeros(len(numbers), dtype=bool))
        place = np.searchsorted(self._starts, numbers, side="right") - 1
        inside = (place >= 0) & (numbers <= self._ends[np.maximum(place, 0)])
        return pa.array(inside & known)


def _numbers(keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Addresses as numbers, and which of the keys were addresses; no Python object per row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    pattern = r"^(?P<a>\d{1,3})\.(?P<b>\d{1,3})\.(?P<c>\d{1,3})\.(?P<d>\d{1,3})$"
    parts = pc.extract_regex(keys.cast(pa.string()), pattern)
    known = np.asarray(pc.is_valid(parts))
    number = np.zeros(len(keys), dtype=np.int64)
    for name in "abcd":
        octet = pc.fill_null(pc.cast(pc.struct_field(parts, name), pa.int64()), 0).to_numpy(zero_copy_only=False)
        known &= octet <= 255
        number = number * 256 + octet
    return number, known


def _is_block(text: str) -> bool:
    try:
        _network(text)
    except ValueError:
        return False
    return True


def _network(text: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(f"{text}.0.0.0/8" if "." not in text else text)
