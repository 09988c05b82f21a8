"""Where the metadata log stands: the content of its node, which every change of the metadata writes anew."""

from __future__ import annotations

import json
from typing import NamedTuple

from penstock.cluster.deltas.encoding import check_format
from penstock.cluster.image import NO_CONTROLLER
from penstock.cluster.levels import FIRST_LEVEL, SUPPORTED
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind

# A broker that misses fewer deltas than this catches up by reading them; one that misses more loads all nodes.
DELTAS_KEPT = 1_000
# A log that keeps more than that, because an earlier version did, comes down by so many with each change.
_TRIMMED_AT_ONCE = 20


class LogPosition(NamedTuple):
    """0 is the position of a log without deltas: of a new cluster, or of one from before there was a log."""

    number: int = 0
    # The oldest delta that is kept.
    first: int = 1
    # Who wrote the newest delta.
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    # The newest delta did not fit one transaction: its nodes may be those of before, of after, or mixed.
    is_unwritten: bool = False


def next_position(position: LogPosition, controller_id: int, controller_epoch: int) -> LogPosition:
    number = position.number + 1
    first = min(max(position.first, number - DELTAS_KEPT + 1), position.first + _TRIMMED_AT_ONCE)
    return LogPosition(number, first, controller_id, controller_epoch)


def encode_position(position: LogPosition, level: int = FIRST_LEVEL) -> bytes:
    value = {
        "format": level,
        "number": position.number,
        "first": position.first,
        "controller": position.controller_id,
        "controller_epoch": position.controller_epoch,
        "unwritten": position.is_unwritten,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode_level(data: bytes) -> int:
    """Of the metadata after the newest delta. `data` is that of a position that can be decoded."""
    return int(json.loads(data)["format"])


def decode_position(data: bytes, highest_level: int = SUPPORTED.highest) -> LogPosition:
    if not data:
        return LogPosition()
    try:
        value = json.loads(data)
        check_format(znodes.LOG, int(value["format"]), highest_level)
        return LogPosition(
            int(value["number"]),
            int(value["first"]),
            int(value["controller"]),
            int(value["controller_epoch"]),
            bool(value["unwritten"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, f"the node cannot be understood: {error!r}") from error
