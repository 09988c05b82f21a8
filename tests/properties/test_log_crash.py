"""Whatever happens to the unsynced end of a log, what is served afterwards is a prefix of what was appended."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.log.support import Disk, append, read_all, sequenced

COUNT = 14


def crashed(directory: Path) -> Disk:
    disk = Disk(directory)
    log = disk.create()
    for sequence in range(COUNT):
        append(log, sequenced(sequence))
    log.close(clean=False)
    return disk


def check_prefix(disk: Disk) -> None:
    log = disk.open(is_clean=False)
    found = read_all(log)
    assert found == [(index, f"s{index}") for index in range(len(found))]
    # the producer goes on exactly where the log ends
    append(log, sequenced(len(found)))
    assert read_all(log)[-1] == (len(found), f"s{len(found)}")
    log.close(clean=True)
    assert len(read_all(disk.open())) == len(found) + 1


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_prefix_remains_when_the_log_is_cut_at_any_byte(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        disk = crashed(Path(name))
        logs = sorted(Path(name).glob("*.log"))
        path = data.draw(st.sampled_from(logs))
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        check_prefix(disk)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_prefix_remains_when_bytes_of_the_log_are_overwritten(data: st.DataObject) -> None:
    """Offset and epoch of a batch stand outside its checksum: what goes wrong there must be out of order to be seen."""
    with tempfile.TemporaryDirectory() as name:
        disk = crashed(Path(name))
        path = data.draw(st.sampled_from(sorted(Path(name).glob("*.log"))))
        content = bytearray(path.read_bytes())
        size = int.from_bytes(content[8:12], "big") + 12
        inside = data.draw(st.integers(16, size - 1))
        position = data.draw(st.integers(0, len(content) // size - 1)) * size + inside
        content[position] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        check_prefix(disk)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_nothing_is_lost_when_files_that_rebuild_themselves_are_damaged(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        disk = Disk(Path(name))
        log = disk.create()
        for sequence in range(COUNT):
            append(log, sequenced(sequence))
        log.close(clean=True)
        paths = sorted(path for path in Path(name).iterdir() if path.suffix != ".log")
        for path in data.draw(st.sets(st.sampled_from(paths))):
            path.write_bytes(data.draw(st.binary(max_size=60)))
        log = disk.open(is_clean=False)
        assert read_all(log) == [(index, f"s{index}") for index in range(COUNT)]
        assert log.append_as_leader(sequenced(COUNT - 1), 0, 1_700_000_000_000).is_duplicate
        log.close(clean=True)
