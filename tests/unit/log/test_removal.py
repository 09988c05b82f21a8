"""Dead files are removed in pieces, and never under somebody who reads them."""

from __future__ import annotations

from pathlib import Path

from penstock.log.storage.files import Files
from penstock.log.upkeep.removal import Removal
from penstock.testing.disks.faulty_files import Fault, FaultyFiles

PIECE = 1000


def run(removal: Removal) -> int:
    """How many steps it took."""
    steps = 1
    while removal.step():
        steps += 1
    return steps


def dead_file(directory: Path, size: int, name: str = "00.log.deleted") -> str:
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(bytes(size))
    return str(directory / name)


def test_a_large_file_goes_in_pieces_when_nobody_reads_it(tmp_path: Path) -> None:
    files = FaultyFiles()
    path = dead_file(tmp_path, 4 * PIECE + 1)
    steps = run(Removal(files, [path], piece_bytes=PIECE))
    assert steps > 4
    assert [operation.name for operation in files.operations].count("truncate") == 4
    assert not Path(path).exists()


def test_the_directory_is_synced_first_when_a_large_file_goes(tmp_path: Path) -> None:
    files = FaultyFiles()
    run(Removal(files, [dead_file(tmp_path, 3 * PIECE), dead_file(tmp_path, 3 * PIECE, "other")], piece_bytes=PIECE))
    names = [operation.name for operation in files.operations if operation.name in ("sync", "truncate")]
    assert names == ["sync", *["truncate"] * 4]


def test_a_small_file_goes_at_once_when_it_is_due(tmp_path: Path) -> None:
    files = FaultyFiles()
    path = dead_file(tmp_path, PIECE)
    assert run(Removal(files, [path], piece_bytes=PIECE)) == 1
    assert not Path(path).exists()


def test_a_reader_keeps_the_bytes_when_the_name_goes(tmp_path: Path) -> None:
    path = dead_file(tmp_path, 3 * PIECE)
    reader = Files().open(path)
    removal = Removal(Files(), [path], piece_bytes=PIECE)
    run(removal)
    assert not Path(path).exists()
    assert len(reader.read(0, 4 * PIECE)) == 3 * PIECE
    (held,) = removal.held
    reader.close()
    later = Removal(Files(), (), removal.held, PIECE)
    assert run(later) > 1
    assert later.held == []
    assert held.fileno() == -1, "the removal frees the blocks, not the reader's close"


def test_a_directory_goes_with_all_that_is_in_it_when_it_is_due(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0.aa-delete"
    for name in ("00.log", "00.index", "partition.metadata"):
        dead_file(directory, 3 * PIECE, name)
    (directory / "deeper").mkdir()
    run(Removal(Files(), [str(directory), str(tmp_path / "gone-1.bb-delete")], piece_bytes=PIECE))
    assert list(tmp_path.iterdir()) == []


def test_other_files_go_when_one_cannot(tmp_path: Path) -> None:
    files = FaultyFiles(Fault.on("unlink", "stuck"))
    paths = [dead_file(tmp_path, 3 * PIECE, name) for name in ("stuck", "free")]
    run(Removal(files, paths, piece_bytes=PIECE))
    assert [path.name for path in tmp_path.iterdir()] == ["stuck"]
    assert (tmp_path / "stuck").stat().st_size == 3 * PIECE
