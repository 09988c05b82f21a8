from __future__ import annotations

import pytest

from penstock.log.state.leader_epochs import EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochEntry(*entry) for entry in entries])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(-1, (-1, -1)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 50)), (5, (5, 99)), (6, (-1, -1))],
)
def test_the_end_of_an_epoch_is_kafkas_when_asked_for(asked: int, expected: tuple[int, int]) -> None:
    assert epochs((2, 10), (4, 20), (5, 50)).end_offset_for(asked, 99) == expected


def test_no_epoch_ends_anywhere_when_none_is_known() -> None:
    assert epochs().end_offset_for(0, 99) == (-1, -1)


def test_contradicted_entries_go_when_a_new_epoch_is_assigned() -> None:
    found = epochs((1, 10), (2, 20), (3, 30))
    assert found.assign(4, 20)
    assert found.entries == [(1, 10), (4, 20)]
    assert not found.assign(4, 25)
    assert found.assign(2, 40)
    assert found.entries == [(1, 10), (2, 40)]
    assert found.latest == 2


def test_later_epochs_go_when_the_end_is_truncated() -> None:
    found = epochs((1, 10), (2, 20))
    assert not found.truncate_from_end(21)
    assert found.truncate_from_end(20)
    assert (found.entries, found.latest) == ([(1, 10)], 1)
    assert found.truncate_from_end(0)
    assert found.latest == -1


def test_the_covering_epoch_moves_up_when_the_start_is_truncated() -> None:
    found = epochs((1, 10), (2, 20), (3, 30))
    assert not found.truncate_from_start(5)
    assert not found.truncate_from_start(10)
    assert found.truncate_from_start(25)
    assert found.entries == [(2, 25), (3, 30)]
    assert [found.epoch_for_offset(offset) for offset in (24, 25, 29, 30, 99)] == [-1, 2, 2, 3, 3]


def test_the_file_is_kafkas_when_written() -> None:
    found = epochs((1, 10), (2, 20))
    assert found.encode() == b"0\n2\n1 10\n2 20\n"
    assert LeaderEpochs.decode(found.encode()).entries == found.entries
    assert LeaderEpochs.decode(b"").entries == []


@pytest.mark.parametrize("data", [b"1\n0\n", b"0\n2\n1 10\n", b"0\n1\n1\n", b"0\nx\n", b"\xff\xfe", b"0\n1\n1 10 5\n"])
def test_a_damaged_file_is_refused_when_read(data: bytes) -> None:
    with pytest.raises(ValueError):
        LeaderEpochs.decode(data)
