from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.log_files.cleaner import CleanerProgress, cleaner_documents, read_progress


def partition(directory: Path, name: str, **sizes: int) -> None:
    (directory / name).mkdir()
    for base_offset, size in sizes.items():
        (directory / name / f"{int(base_offset[1:]):020d}.log").write_bytes(bytes(size))


def test_clean_and_dirty_parts_are_told_apart_when_a_log_was_compacted(tmp_path: Path) -> None:
    partition(tmp_path, "orders-0", _0=100, _10=20, _20=30, _30=50)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\norders 0 20\nother 3 7\n")
    found = read_progress(tmp_path, None)
    assert found == [CleanerProgress("orders", 0, 20, 4, 120, 30, 50), CleanerProgress("other", 3, 7, 0, 0, 0, 0)]
    assert [document["dirty_ratio"] for document in cleaner_documents(found)] == [0.2, 0.0]
    assert read_progress(tmp_path, frozenset({"orders"})) == found[:1]


def test_nothing_is_found_when_nothing_was_compacted(tmp_path: Path) -> None:
    assert read_progress(tmp_path, None) == []


def test_checkpoint_is_named_when_it_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("nonsense\n")
    with pytest.raises(UsageError, match="cleaner-offset-checkpoint"):
        read_progress(tmp_path, None)
