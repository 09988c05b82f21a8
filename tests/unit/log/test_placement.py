"""Which data directory a new partition goes to."""

from __future__ import annotations

import threading
from pathlib import Path

from penstock.log.directories.partition_directories import NewPartition
from penstock.log.directories.placement import rank_directories
from penstock.log.storage.files import DiskSpace, Files, StrPath
from tests.unit.log.support import SMALL, TOPIC_ID
from tests.unit.log.test_log_directories import in_a_thread, opened, partition

A, B, C = Path("/a"), Path("/b"), Path("/c")
GIB = 1 << 30


def placed(count: int, usable_bytes: dict[Path, int], counts: dict[Path, int] | None = None) -> dict[Path, int]:
    """How many of so many new partitions each directory gets."""
    counts = counts or dict.fromkeys(usable_bytes, 0)
    before = dict(counts)
    for _ in range(count):
        counts[rank_directories(counts, usable_bytes)[0]] += 1
    return {path: counts[path] - before[path] for path in counts}


def test_partitions_are_spread_evenly_when_directories_have_nearly_the_same_room() -> None:
    assert placed(10, {A: 100 * GIB, B: 95 * GIB}) == {A: 5, B: 5}
    assert placed(2, {A: 100 * GIB, B: 95 * GIB}, {A: 5, B: 3}) == {A: 0, B: 2}


def test_share_of_the_partitions_follows_the_room_when_disks_differ() -> None:
    assert placed(30, {A: 300 * GIB, B: 100 * GIB, C: 200 * GIB}) == {A: 15, B: 5, C: 10}


def test_full_disk_and_one_that_does_not_answer_come_last() -> None:
    assert rank_directories({A: 0, B: 9, C: 0}, {A: 0, B: GIB}) == [B, A, C]


def test_first_directory_comes_first_when_all_are_alike() -> None:
    assert rank_directories({A: 1, B: 1}, {A: GIB, B: GIB}) == [A, B]
    assert rank_directories({A: 1, B: 0}, {}) == [B, A]


class UnevenFiles(Files):
    """One disk has more room than the other; notes who asks."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def space(self, path: StrPath) -> DiskSpace:
        self.threads.add(threading.get_ident())
        return DiskSpace(100, 90 if str(path).endswith("b") else 10)


def test_room_is_asked_in_a_thread_when_partitions_are_made(tmp_path: Path) -> None:
    files = UnevenFiles()
    directories = opened(tmp_path / "a", tmp_path / "b", files=files)
    creation = directories.prepare_creation([NewPartition(partition(number), TOPIC_ID) for number in range(10)])
    assert creation is not None
    in_a_thread(creation.run)
    directories.settle_creation(creation)
    logs = [directories.create(partition(number), TOPIC_ID, SMALL) for number in range(10)]
    assert sum(log.directory.parent.name == "b" for log in logs) == 9
    assert threading.get_ident() not in files.threads
    directories.close()


def test_partition_goes_where_it_was_asked_for_when_it_is_made_later(tmp_path: Path) -> None:
    directories = opened(tmp_path / "a", tmp_path / "b")
    directories.preferred[partition(0)] = tmp_path / "b"
    assert directories.create(partition(0), TOPIC_ID, SMALL).directory.parent == tmp_path / "b"
    assert directories.preferred == {}
    directories.close()
