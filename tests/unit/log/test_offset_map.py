from __future__ import annotations

from penstock.log.compaction.offset_map import OffsetMap, Survivors


def gathered(offsets: OffsetMap, first_offset: int, memory: int = 1000) -> Survivors:
    survivors = Survivors(first_offset)
    for _ in survivors.gather(offsets, memory):
        pass
    return survivors


def test_batch_has_survivors_when_the_map_points_into_it() -> None:
    offsets = OffsetMap(100, 29)
    offsets.put(b"a", 10)
    offsets.put(b"a", 15)
    offsets.put(b"b", 29)
    survivors = gathered(offsets, 10)
    assert survivors.has_none(10, 14)
    assert not survivors.has_none(10, 15)
    assert not survivors.has_none(15, 15)
    assert survivors.has_none(16, 28)
    assert not survivors.has_none(16, 29)


def test_nothing_is_said_of_a_batch_when_the_map_does_not_reach_it() -> None:
    survivors = gathered(OffsetMap(100, 29), 10)
    assert survivors.has_none(10, 29)
    assert not survivors.has_none(9, 12)
    assert not survivors.has_none(29, 30)
    assert not Survivors(10).has_none(10, 12)


def test_nothing_is_said_of_a_batch_when_the_memory_does_not_reach_it() -> None:
    offsets = OffsetMap(100, 29)
    offsets.put(b"b", 29)
    survivors = gathered(offsets, 10, memory=5)
    assert survivors.has_none(10, 14)
    assert not survivors.has_none(10, 15)


def test_nothing_survives_when_nothing_was_mapped() -> None:
    assert not gathered(OffsetMap(100, 4), 10).has_none(10, 10)
