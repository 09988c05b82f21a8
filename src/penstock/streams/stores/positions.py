"""How far a store was read: by partition, the offset behind the last record that is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from penstock.streams.stores.errors import StoreError

Position: TypeAlias = dict[int, int]

_PAIRS = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")
# More partitions than Kafka recommends for a whole cluster.
_MOST_PARTITIONS: Final = 100_000
_decoder = msgspec.json.Decoder(dict[int, int])


def parse_position(text: str | None) -> Position:
    """`0:12,1:7`, or the object that answers carry: `{"0":12,"1":7}`. Raises StoreError."""
    if not text:
        return {}
    if _PAIRS.fullmatch(text):
        return {
            int(partition): int(offset) for partition, _, offset in (each.partition(":") for each in text.split(","))
        }
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError):
        raise StoreError(400, 'min_position is like 0:12,1:7 or {"0":12,"1":7}') from None


def position_of(given: Any) -> Position:
    """The position in a body. Raises StoreError."""
    if given is None:
        return {}
    if isinstance(given, Mapping) and len(given) <= _MOST_PARTITIONS:
        return parse_position(msgspec.json.encode(given).decode())
    raise StoreError(400, 'min_position is like {"0":12,"1":7}')


def is_reached(position: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    return all(position.get(partition, -1) >= offset for partition, offset in wanted.items())


def missing(position: Mapping[int, int], wanted: Mapping[int, int]) -> str:
    """In words: what has not been read yet."""
    behind = [
        f"partition {partition} is at {position[partition]} of {offset}"
        if partition in position
        else f"there is no partition {partition}"
        for partition, offset in sorted(wanted.items())
        if position.get(partition, -1) < offset
    ]
    more = f" and {len(behind) - 3} more" if len(behind) > 3 else ""
    return ", ".join(behind[:3]) + more
