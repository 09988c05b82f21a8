"""The position of the metadata log: the content of its node, which every change of the metadata writes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from penstock.cluster.deltas.encoding import check_format
from penstock.cluster.image import NO_CONTROLLER
from penstock.cluster.levels import FIRST_LEVEL, SNAPSHOT_LEVEL, SUPPORTED
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind

# A broker that misses fewer deltas than this catches up by reading them; a broker that misses more loads everything. A
# controller writes a snapshot after this number of deltas since the last snapshot.
DELTAS_KEPT = 1_000
# A longer log shrinks by this number with each change.
_TRIMMED_AT_ONCE = 20


class SnapshotMark(NamedTuple):
    """A snapshot all of whose parts are in the store."""

    number: int  # the newest delta in the snapshot
    part_count: int
    size: int  # bytes


def encode_mark(mark: SnapshotMark) -> bytes:
    return json.dumps(mark, separators=(",", ":")).encode()


def decode_mark(data: bytes) -> SnapshotMark | None:
    """None where the snapshot is not whole, or another program has written there."""
    try:
        return SnapshotMark(*map(int, json.loads(data)))
    except (ValueError, TypeError):
        return None


class LogPosition(NamedTuple):
    """0 is the position of a log without deltas: of a new cluster, or of a cluster from before there was a log."""

    number: int = 0
    # The oldest kept delta.
    first: int = 1
    # The controller that wrote the newest delta.
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    # The newest delta did not fit one transaction: its nodes may be those of before, of after, or mixed.
    is_unwritten: bool = False
    # The snapshot to load, from `SNAPSHOT_LEVEL` on. Below that level there is none, and brokers load the nodes.
    snapshot: SnapshotMark | None = None
    # The bytes of the deltas that the snapshot does not contain.
    size: int = 0


def next_position(position: LogPosition, controller_id: int, controller_epoch: int, size: int = 0) -> LogPosition:
    """`size` is the size of the next delta. Only deltas that the snapshot contains are removed."""
    number = position.number + 1
    first = min(max(position.first, number - DELTAS_KEPT + 1), position.first + _TRIMMED_AT_ONCE)
    if position.snapshot is not None:
        first = max(position.first, min(first, position.snapshot.number + 1))
    return LogPosition(number, first, controller_id, controller_epoch, False, position.snapshot, position.size + size)


def encode_position(position: LogPosition, level: int = FIRST_LEVEL) -> bytes:
    assert (position.snapshot is not None) == (level >= SNAPSHOT_LEVEL), "the level says where the truth is"
    value: dict[str, Any] = {
        "format": level,
        "number": position.number,
        "first": position.first,
        "controller": position.controller_id,
        "controller_epoch": position.controller_epoch,
        "unwritten": position.is_unwritten,
    }
    if position.snapshot is not None:
        value |= {"snapshot": position.snapshot, "size": position.size}
    return json.dumps(value, separators=(",", ":")).encode()


def decode_level(data: bytes) -> int:
    """The level of the metadata after the newest delta. `data` is a position that can be decoded."""
    return int(json.loads(data)["format"])


def decode_position(data: bytes, highest_level: int = SUPPORTED.highest) -> LogPosition:
    if not data:
        return LogPosition()
    try:
        value = json.loads(data)
        level = int(value["format"])
        check_format(znodes.LOG, level, highest_level)
        snapshot = SnapshotMark(*map(int, value["snapshot"])) if level >= SNAPSHOT_LEVEL else None
        return LogPosition(
            int(value["number"]),
            int(value["first"]),
            int(value["controller"]),
            int(value["controller_epoch"]),
            bool(value["unwritten"]),
            snapshot,
            0 if snapshot is None else int(value["size"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, f"the node cannot be understood: {error!r}") from error
