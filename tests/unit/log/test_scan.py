"""Stepping over batches that nobody needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError, scan_batches, scan_needed_batches
from tests.unit.log.support import batch

SIZES = (1, 5_000, 10, 700, 9_000, 1, 1, 30_000, 4_100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Batches of many sizes, each with the number of its place as base offset."""
    made = tmp_path / "0.log"
    made.write_bytes(b"".join(batch("v" * size, base_offset=offset) for offset, size in enumerate(SIZES)))
    return made


@pytest.mark.parametrize("chunk_size", [1, 100, 8_192, 1 << 20])
@pytest.mark.parametrize("needed", [set(), {0}, {8}, {1, 2, 6}, {3, 4, 5}, set(range(9))], ids=str)
def test_needed_batches_are_the_same_when_others_are_stepped_over(
    path: Path, needed: set[int], chunk_size: int
) -> None:
    file, size = Files().open(path), path.stat().st_size
    expected = [
        (position, header, bytes(found) if header.base_offset in needed else None)
        for position, header, found in scan_batches(file, 0, size)
    ]
    found = [
        (position, header, None if data is None else bytes(data))
        for position, header, data in scan_needed_batches(
            file, 0, size, chunk_size, lambda header: header.base_offset in needed
        )
    ]
    assert found == expected


@pytest.mark.parametrize(("needed", "is_refused"), [({4}, True), ({3, 5}, False)])
def test_checksum_counts_when_the_batch_is_needed(path: Path, needed: set[int], is_refused: bool) -> None:
    content = bytearray(path.read_bytes())
    position = [position for position, _, _ in scan_batches(Files().open(path), 0, len(content))][4]
    content[position + 100] ^= 1
    path.write_bytes(content)
    steps = scan_needed_batches(Files().open(path), 0, len(content), 4_096, lambda header: header.base_offset in needed)
    if is_refused:
        with pytest.raises(CorruptLogError, match="checksum"):
            list(steps)
    else:
        assert len(list(steps)) == len(SIZES)
