"""The disk in memory: what it keeps, and what it loses when the power fails."""

from __future__ import annotations

import errno
import random

import pytest

from penstock.testing.disks.memory import DiskFault, MemoryFiles


def disk() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directories("/data")
    files.sync_directory("/")
    return files


def survivors(files: MemoryFiles, count: int = 60) -> list[MemoryFiles]:
    return [files.after_power_cut(random.Random(seed)) for seed in range(count)]


def test_content_and_name_survive_a_power_cut_when_both_were_synced() -> None:
    files = disk()
    files.write_file("/data/a", b"content", sync=True)
    files.sync_directory("/data")
    assert all(left.read_file("/data/a") == b"content" for left in survivors(files))


def test_a_file_may_be_gone_after_a_power_cut_when_its_directory_was_not_synced() -> None:
    files = disk()
    files.write_file("/data/a", b"content", sync=True)
    assert {left.exists("/data/a") for left in survivors(files)} == {True, False}


def test_an_appended_tail_may_be_there_or_lost_or_torn_or_zeroed_when_it_was_not_synced() -> None:
    files = disk()
    file = files.open("/data/a", create=True)
    file.write([b"safe"], 0, 4)
    file.sync()
    files.sync_directory("/data")
    file.write([b"tail"], 4, 4)
    found = {left.read_file("/data/a") for left in survivors(files)}
    assert all(content.startswith(b"safe") for content in found)
    assert {b"safe", b"safetail", b"safe\0\0\0\0"} <= found
    assert any(4 < len(content) < 8 for content in found)


def test_a_rename_is_there_wholly_or_not_at_all_when_the_power_fails() -> None:
    files = disk()
    files.write_file("/data/old", b"1", sync=True)
    files.sync_directory("/data")
    files.rename("/data/old", "/data/new")
    found = {tuple(sorted(left.list_names("/data"))) for left in survivors(files)}
    assert found == {("old",), ("new",)}


def test_everything_written_is_found_after_a_kill_but_may_still_be_lost_to_a_later_power_cut() -> None:
    files = disk()
    files.write_file("/data/a", b"content")
    left = files.after_kill()
    assert left.read_file("/data/a") == b"content"
    assert {later.exists("/data/a") for later in survivors(left)} == {True, False}


def test_the_old_disk_does_not_reach_the_new_one_when_somebody_still_writes_to_it() -> None:
    files = disk()
    file = files.open("/data/a", create=True)
    left = files.after_kill()
    file.write([b"late"], 0, 4)
    files.unlink("/data/a")
    assert left.read_file("/data/a") == b""


def test_what_a_start_finds_after_a_power_cut_stays_when_the_power_fails_again() -> None:
    files = disk()
    files.write_file("/data/a", b"content")
    for left in survivors(files):
        for later in survivors(left, 5):
            assert later.list_names("/data") == left.list_names("/data")


def test_a_lock_is_refused_while_it_is_held_and_gone_with_its_process() -> None:
    files = disk()
    held = files.lock("/data/.lock")
    with pytest.raises(BlockingIOError):
        files.lock("/data/.lock")
    files.after_kill().lock("/data/.lock")
    held.close()
    files.lock("/data/.lock")


def test_a_write_stores_a_part_and_fails_when_the_disk_says_so() -> None:
    files = disk()
    file = files.open("/data/a", create=True)

    def refuse(name: str, path: str) -> None:
        if name == "write":
            raise DiskFault(errno.ENOSPC, "full", path, stored=2)

    files.check = refuse
    with pytest.raises(OSError, match="full"):
        file.write([b"abcd"], 0, 4)
    assert files.read_file("/data/a") == b"ab"


def test_an_open_file_can_be_read_when_its_name_is_gone() -> None:
    files = disk()
    file = files.open("/data/a", create=True)
    file.write([b"abc"], 0, 3)
    files.unlink("/data/a")
    assert file.read(1, 5) == b"bc"
    with pytest.raises(FileNotFoundError):
        files.open("/data/a")


def test_directories_are_listed_made_and_removed_as_on_a_real_disk() -> None:
    files = disk()
    files.make_directory("/data/t-0")
    with pytest.raises(FileExistsError):
        files.make_directory("/data/t-0")
    files.write_file("/data/t-0/f", b"")
    assert files.list_directories("/data") == ["t-0"]
    files.rename("/data/t-0", "/data/t-0-delete")
    assert files.exists("/data/t-0-delete/f")
    files.remove_tree("/data/t-0-delete")
    assert files.list_names("/data") == []
    with pytest.raises(FileNotFoundError):
        files.list_names("/data/t-0-delete")
