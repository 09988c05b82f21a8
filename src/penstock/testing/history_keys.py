"""The records of a key that a compacted partition may hold last, after everything that was sent with that key.

Compaction removes records, but never the latest one of a key; a latest record that is a tombstone may go away together
with the records before it. The latest record is the one with the highest offset among those that must be visible. A
send of unknown outcome may stand behind it, and so may a send whose offset no client learnt.

- lost-key: no record of a key is left, although one must be visible and no tombstone can have removed it
- stale-key: the last record of a key is older than one that must be visible
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.testing.history import Anomaly, Operation, Send, Where


class KeyedSend(NamedTuple):
    """`offset` is None where it is unknown. `must_be_visible` is False for a send of unknown outcome."""

    send: Send
    operation: Operation
    offset: int | None
    must_be_visible: bool


def check_keys(
    topic_partition: Where,
    sends: Iterable[KeyedSend],
    last_read: Sequence[tuple[int, Hashable]],
    ordered: Collection[int] = (),
) -> list[Anomaly]:
    """`sends`: in the order in which they were made, without those that certainly had no effect. `last_read`: offsets
    and values that the partition holds at the end.
    """
    by_key: dict[Hashable, list[KeyedSend]] = {}
    for each in sends:
        by_key.setdefault(each.send.key, []).append(each)
    last_offsets = {value: offset for offset, value in last_read}
    anomalies = (_judge_key(topic_partition, key, each, last_offsets, ordered) for key, each in by_key.items())
    return [anomaly for anomaly in anomalies if anomaly is not None]


def _judge_key(
    topic_partition: Where,
    key: Hashable,
    sends: Sequence[KeyedSend],
    last_offsets: Mapping[Hashable, int],
    ordered: Collection[int],
) -> Anomaly | None:
    visible = [each for each in sends if each.must_be_visible]
    newest = max(visible, key=_known_offset, default=None)
    if newest is None:
        return None
    place = f"{topic_partition[0]}-{topic_partition[1]}: key {key!r}"
    left = [each for each in sends if each.send.value in last_offsets]
    if not left:
        if any(each.send.is_tombstone and _may_be_last(each, newest) for each in sends):
            return None
        return Anomaly("lost-key", f"{place} has no record, {_name(newest)} is gone", (newest.operation,), key)
    last = max(left, key=lambda each: last_offsets[each.send.value])
    offset = last_offsets[last.send.value]
    missed = newest if offset < _known_offset(newest) else _find_successor(last, sends, ordered)
    if missed is None:
        return None
    text = f"{place} is {last.send.value!r} at offset {offset}, {_name(missed)} is newer"
    return Anomaly("stale-key", text, (last.operation, missed.operation), key)


def _find_successor(last: KeyedSend, sends: Sequence[KeyedSend], ordered: Collection[int]) -> KeyedSend | None:
    """A send that must be visible and stands behind `last`, since one process sent both, one after the other."""
    process = last.operation.process
    if process not in ordered:
        return None
    later = sends[sends.index(last) + 1 :]
    return next((each for each in later if each.must_be_visible and each.operation.process == process), None)


def _may_be_last(each: KeyedSend, newest: KeyedSend) -> bool:
    return each is newest or each.offset is None or each.offset > _known_offset(newest)


def _known_offset(each: KeyedSend) -> int:
    return -1 if each.offset is None else each.offset


def _name(each: KeyedSend) -> str:
    kind = "tombstone" if each.send.is_tombstone else "record"
    return f"{kind} {each.send.value!r} at {'an unknown offset' if each.offset is None else f'offset {each.offset}'}"
