"""What every disk does alike: the real one, and those that stand in for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.log.storage.files import Files
from penstock.testing.disks.faulty_files import FaultyFiles
from penstock.testing.disks.memory import MemoryFiles
from penstock.testing.disks.power_cut import PowerCutFiles
from proof.disk.plans import PlannedFiles

DISKS: dict[str, Callable[[], Files]] = {
    "real": Files,
    "failing": FaultyFiles,
    "failing without fsync": lambda: FaultyFiles(is_synced=False),
    "planned": PlannedFiles,
    "power cut": PowerCutFiles,
    "memory": MemoryFiles,
}


@pytest.fixture(params=DISKS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    disk = DISKS[request.param]()
    disk.make_directories(tmp_path)
    yield disk
    if isinstance(disk, PowerCutFiles):
        disk.close()


def test_content_is_read_where_it_was_written_when_a_file_is_open(files: Files, tmp_path: Path) -> None:
    file = files.open(tmp_path / "a", create=True)
    file.write([b"ab", b"cd"], 0, 4)
    file.write([b"X"], 1, 1)
    assert (file.read(0, 10), file.read(2, 1), file.read(9, 5)) == (b"aXcd", b"c", b"")
    assert file.size() == files.size(tmp_path / "a") == 4
    file.close()
    assert files.read_file(tmp_path / "a") == b"aXcd"


def test_gap_is_zeros_when_a_write_begins_behind_the_end(files: Files, tmp_path: Path) -> None:
    file = files.open(tmp_path / "a", create=True)
    file.write([b"z"], 3, 1)
    assert file.read(0, 4) == b"\0\0\0z"


def test_file_is_cut_or_filled_with_zeros_when_it_is_truncated(files: Files, tmp_path: Path) -> None:
    file = files.open(tmp_path / "a", create=True)
    file.write([b"abcd"], 0, 4)
    file.truncate(2)
    assert file.read(0, 9) == b"ab"
    file.truncate(4)
    assert file.read(0, 9) == b"ab\0\0"
    file.sync()


def test_file_is_missing_when_it_was_never_made(files: Files, tmp_path: Path) -> None:
    for attempt in (files.open, files.read_file, files.size, files.list_names, files.sync_directory):
        with pytest.raises(FileNotFoundError):
            attempt(tmp_path / "missing")
    assert not files.exists(tmp_path / "missing")
    files.unlink(tmp_path / "missing")
    files.remove_tree(tmp_path / "missing")


def test_content_is_replaced_when_a_file_is_written_as_a_whole(files: Files, tmp_path: Path) -> None:
    files.write_file(tmp_path / "a", b"long content")
    files.write_file(tmp_path / "a", b"short", sync=True)
    assert files.read_file(tmp_path / "a") == b"short"
    files.write_atomically(tmp_path / "a", b"new")
    assert files.read_file(tmp_path / "a") == b"new"
    assert files.list_names(tmp_path) == ["a"]


def test_name_leads_to_the_other_content_when_a_file_is_renamed_onto_another(files: Files, tmp_path: Path) -> None:
    files.write_file(tmp_path / "old", b"1")
    files.write_file(tmp_path / "new", b"2")
    files.rename(tmp_path / "old", tmp_path / "new")
    assert files.list_names(tmp_path) == ["new"]
    assert files.read_file(tmp_path / "new") == b"1"
    with pytest.raises(FileNotFoundError):
        files.rename(tmp_path / "old", tmp_path / "new")


def test_open_file_can_be_read_when_its_name_is_gone(files: Files, tmp_path: Path) -> None:
    file = files.open(tmp_path / "a", create=True)
    file.write([b"abc"], 0, 3)
    files.unlink(tmp_path / "a")
    assert file.read(1, 5) == b"bc"
    assert not files.exists(tmp_path / "a")


def test_directories_are_listed_renamed_and_removed_with_what_is_in_them(files: Files, tmp_path: Path) -> None:
    files.make_directory(tmp_path / "t-0")
    files.make_directories(tmp_path / "t-0")
    with pytest.raises(FileExistsError):
        files.make_directory(tmp_path / "t-0")
    files.write_file(tmp_path / "t-0" / "f", b"1")
    files.write_file(tmp_path / "file", b"")
    assert files.list_directories(tmp_path) == ["t-0"]
    assert sorted(files.list_names(tmp_path)) == ["file", "t-0"]
    files.rename(tmp_path / "t-0", tmp_path / "t-1")
    assert files.read_file(tmp_path / "t-1" / "f") == b"1"
    files.sync_directory(tmp_path)
    files.remove_tree(tmp_path / "t-1")
    assert files.list_directories(tmp_path) == []


def test_lock_is_refused_when_somebody_holds_it(files: Files, tmp_path: Path) -> None:
    held = files.lock(tmp_path / ".lock")
    with pytest.raises(BlockingIOError):
        files.lock(tmp_path / ".lock")
    held.close()
    files.lock(tmp_path / ".lock").close()


def test_lock_of_a_directory_goes_along_when_it_is_renamed(files: Files, tmp_path: Path) -> None:
    files.make_directory(tmp_path / "t-0")
    held = files.lock_directory(tmp_path / "t-0")
    files.rename(tmp_path / "t-0", tmp_path / "t-1")
    files.make_directory(tmp_path / "t-0")
    files.lock_directory(tmp_path / "t-0").close()
    with pytest.raises(BlockingIOError):
        files.lock_directory(tmp_path / "t-1")
    held.close()
    files.lock_directory(tmp_path / "t-1").close()
    with pytest.raises(FileNotFoundError):
        files.lock_directory(tmp_path / "t-2")


def test_time_of_a_file_is_what_it_was_set_to(files: Files, tmp_path: Path) -> None:
    files.write_file(tmp_path / "a", b"1")
    files.set_modified_ms(tmp_path / "a", 1_700_000_000_123)
    assert files.modified_ms(tmp_path / "a") == 1_700_000_000_123
