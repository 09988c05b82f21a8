"""What a start asks of the disk for each partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.log.formats import names
from penstock.testing.disks.faulty_files import FaultyFiles
from tests.unit.log.support import SMALL, TOPIC_ID, append_many
from tests.unit.log.test_log_directories import opened, partition


def operations_of_a_start(directory: Path, *, clean: bool) -> Counter[str]:
    """Those on the partition, by name."""
    files = FaultyFiles()
    directories = opened(directory, files=files)
    asked = Counter(each.name for each in files.operations if str(directory / "orders-0") in each.path)
    directories.close(clean=clean)
    return asked


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_nothing_is_written_when_a_log_without_records_is_loaded(tmp_path: Path, clean: bool) -> None:
    directories = opened(tmp_path)
    directories.create(partition(0), TOPIC_ID, SMALL)
    directories.close(clean=clean)
    asked = operations_of_a_start(tmp_path, clean=clean)
    assert not asked.keys() & {"write_file", "write", "create", "unlink", "rename"}
    assert sum(asked.values()) <= 9, asked


def test_operations_are_bounded_when_a_log_with_records_is_loaded(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    append_many(directories.create(partition(0), TOPIC_ID, SMALL), 3)
    directories.close()
    asked = operations_of_a_start(tmp_path, clean=True)
    assert asked["list"] <= 1
    assert asked["read_file"] <= 5  # metadata, epochs, two indexes, producers
    assert sum(asked.values()) <= 10, asked


@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX])
@pytest.mark.parametrize("content", [None, b"\0" * 24], ids=["missing", "garbage"])
def test_index_is_made_anew_when_a_log_without_records_lacks_an_empty_one(
    tmp_path: Path, suffix: str, content: bytes | None
) -> None:
    directories = opened(tmp_path)
    directories.create(partition(0), TOPIC_ID, SMALL)
    directories.close()
    path = tmp_path / "orders-0" / names.segment_file(0, suffix)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    opened(tmp_path).close()
    assert path.read_bytes() == b""
