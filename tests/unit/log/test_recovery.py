from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.types import ZERO_TOPIC_ID
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.formats import names
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.partition_log import PartitionLog
from penstock.protocol.batch import read_header
from penstock.protocol.records import CONTROL_ABORT, EndMarker, build_end_marker
from penstock.testing.disks.faulty_files import FaultyFiles
from tests.unit.log.compacted import COMPACTED, fill, keyed, roll
from tests.unit.log.support import NOW, SMALL, TOPIC_ID, Disk, append, append_many, batch, read_all, sequenced


def filled(disk: Disk, count: int = 30) -> PartitionLog:
    log = disk.create()
    append_many(log, count)
    return log


def expected(count: int) -> list[tuple[int, str]]:
    return [(index, f"value-{index:06d}") for index in range(count)]


def index_bytes(disk: Disk) -> dict[str, bytes]:
    return {name: (disk.directory / name).read_bytes() for name in disk.names("index")}


# ---- clean


def test_everything_is_there_when_opened_after_a_clean_close(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.reopen(filled(disk))
    assert (log.log_end_offset, log.recovery_point, log.log_start_offset) == (30, 30, 0)
    assert read_all(log) == expected(30)
    append_many(log, 1)
    assert log.log_end_offset == 31


def test_nothing_but_the_tail_is_read_when_opened_after_a_clean_close(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_bytes=10**6))
    filled(disk, 2000).close(clean=True)
    files = FaultyFiles()
    log = Disk(tmp_path, files, disk.settings).open()
    assert log.log_end_offset == 2000
    assert [operation.name for operation in files.operations].count("read") == 1
    assert len(files.operations) < 10


def test_an_empty_log_opens_when_nothing_was_ever_appended(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.reopen(disk.create())
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert disk.names(".snapshot") == []
    assert disk.crash(log).log_end_offset == 0


def test_the_log_begins_at_its_checkpoint_when_all_segments_are_gone(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.directory.mkdir(exist_ok=True)
    disk.log_start_offset = 77
    log = disk.open()
    assert (log.log_start_offset, log.log_end_offset) == (77, 77)


@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeros", "huge"])
def test_indexes_are_rebuilt_when_a_file_is_missing_or_wrong(tmp_path: Path, suffix: str, damage: str) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for index in range(40):
        append(log, batch(f"value-{index:06d}", timestamp=NOW + index))
    log.close(clean=True)
    good = index_bytes(disk)
    for path in disk.directory.glob("*" + suffix):
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({"cut": content[:-1] or b"x", "zeros": bytes(240), "huge": b"\x7f" * 240}[damage])
    log = disk.open()
    assert read_all(log) == expected(40)
    found = log.reader.find_by_timestamp(NOW + 33)
    assert found is not None
    assert found.offset == 33
    log.close(clean=True)
    assert {name: data for name, data in index_bytes(disk).items() if data} == {
        name: data for name, data in good.items() if data
    }


def test_the_log_is_recovered_when_it_is_damaged_in_spite_of_a_clean_close(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    filled(disk).close(clean=True)
    last = max(disk.directory.glob("*.log"))
    with last.open("ab") as file:
        file.write(b"torn tail")
    log = disk.open()
    assert read_all(log) == expected(30)
    assert log.recovery_point == 0


def test_damaged_small_files_cost_nothing_but_a_warning_when_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for sequence in range(30):
        append(log, sequenced(sequence), leader_epoch=sequence // 10)
    log.close(clean=True)
    (tmp_path / names.PARTITION_METADATA).write_bytes(b"version: 9")
    (tmp_path / names.LEADER_EPOCHS).write_bytes(b"0\n17\n")
    for path in tmp_path.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    log = disk.open(is_clean=False)
    assert log.topic_id == ZERO_TOPIC_ID
    assert log.epochs.end_offset_for(0, log.log_end_offset) == (0, 10)
    assert [entry.last_sequence for entry in log.producers.active()] == [29]
    assert caplog.text.count("damaged") >= 2
    log.assign_topic_id(TOPIC_ID)
    assert disk.reopen(log).topic_id == TOPIC_ID


# ---- unclean


def test_every_record_is_there_when_the_process_was_killed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.crash(filled(disk))
    assert read_all(log) == expected(30)
    assert log.recovery_point == 0
    log = disk.crash(log)
    append_many(log, 5)
    assert len(read_all(log)) == 35


def test_files_are_the_same_as_after_a_clean_close_when_recovered(tmp_path: Path) -> None:
    crashed, clean = Disk(tmp_path / "crashed"), Disk(tmp_path / "clean")
    for disk in (crashed, clean):
        log = disk.create()
        for index in range(60):
            append(log, sequenced(index, timestamp=NOW + index % 7), leader_epoch=index // 20)
        if disk is crashed:
            log = disk.crash(log)
        log.close(clean=True)
    assert sorted(path.name for path in crashed.directory.iterdir()) == sorted(
        path.name for path in clean.directory.iterdir()
    )
    for path in clean.directory.iterdir():
        assert (crashed.directory / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("cut", [1, 12, 30, 61, 70])
def test_the_torn_tail_is_cut_when_the_last_batch_is_incomplete(tmp_path: Path, cut: int) -> None:
    disk = Disk(tmp_path)
    log = filled(disk)
    log.close(clean=False)
    last = max(disk.directory.glob("*.log"))
    whole = last.read_bytes()
    last.write_bytes(whole[:-cut])
    log = disk.open(is_clean=False)
    assert read_all(log) == expected(29)
    append(log, batch("next"))
    assert read_all(log) == [*expected(29), (29, "next")]


def test_later_segments_go_when_an_earlier_one_is_damaged(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = filled(disk, 60)
    log.close(clean=False)
    second = sorted(disk.directory.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 0xFF
    second.write_bytes(data)
    log = disk.open(is_clean=False)
    found = read_all(log)
    assert found == expected(len(found))
    assert int(second.stem) <= len(found) < int(second.stem) + 12
    assert disk.names(".log") == ["00000000000000000000.log", second.name]
    assert all(int(name.split(".")[0]) <= log.log_end_offset for name in disk.names(".snapshot"))
    append(log, batch("next"))
    assert read_all(disk.crash(log))[-1] == (len(found), "next")


@pytest.mark.parametrize("lost", ["all of its batches", "its last batches"])
def test_log_ends_before_the_hole_when_a_sealed_segment_lost_whole_batches(tmp_path: Path, lost: str) -> None:
    """A power failure, before the segment was synced. The segments after it are there."""
    disk = Disk(tmp_path)
    filled(disk, 60).close(clean=False)
    second = sorted(disk.directory.glob("*.log"))[1]
    data = second.read_bytes()
    kept = 0 if lost == "all of its batches" else read_header(data).size
    second.write_bytes(data[:kept])
    log = disk.open(is_clean=False)
    end = int(second.stem) + (read_header(data).next_offset - int(second.stem) if kept else 0)
    assert log.log_end_offset == end
    assert read_all(log) == expected(end)
    assert disk.names(".log")[-1] == second.name


def test_log_goes_on_behind_a_hole_when_compaction_may_have_made_it(tmp_path: Path) -> None:
    """Kafka's does, up to the offset of its checkpoint."""
    disk = Disk(tmp_path, settings=replace(SMALL, cleanup_policy=frozenset({"compact"})))
    filled(disk, 60).close(clean=False)
    _, second, third, *_ = sorted(disk.directory.glob("*.log"))
    second.write_bytes(b"")
    disk.cleaned_end = int(third.stem)
    assert disk.open(is_clean=False).log_end_offset == 60


def test_log_ends_before_the_hole_when_a_compacted_log_was_not_cleaned_up_to_there(tmp_path: Path) -> None:
    """The power failed before the segment was synced. A replica looked as if it had caught up, and led without it."""
    disk = Disk(tmp_path, settings=replace(SMALL, cleanup_policy=frozenset({"compact"})))
    filled(disk, 60).close(clean=False)
    _, second, third, *_ = sorted(disk.directory.glob("*.log"))
    second.write_bytes(b"")
    disk.cleaned_end = int(third.stem) - 1
    log = disk.open(is_clean=False)
    assert log.log_end_offset == int(second.stem)
    assert read_all(log) == expected(int(second.stem))


def test_everything_is_kept_when_a_log_was_cleaned_and_its_checkpoint_did_not_follow(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=COMPACTED)
    log = disk.create()
    fill(log, 60)
    append(log, keyed(("once", "only")))
    fill(log, 20, start=60)
    roll(log)
    clean_log(log.compaction, NOW)
    before, end = read_all(log), log.log_end_offset
    assert len(before) < end
    log = disk.crash(log)
    assert (read_all(log), log.log_end_offset) == (before, end)


def test_only_segments_past_the_recovery_point_are_checked_when_opened(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = filled(disk, 60)
    log.flushing.flush()
    disk.recovery_point = log.recovery_point
    append_many(log, 20)
    log.close(clean=False)
    first = disk.log_file(0)
    data = bytearray(first.read_bytes())
    data[70] ^= 0xFF  # inside a record: only a full check would see it
    first.write_bytes(data)
    log = disk.open(is_clean=False)
    assert log.log_end_offset == 80
    assert log.recovery_point == 60


def test_all_segments_go_when_the_log_ends_before_its_start(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    filled(disk, 10).close(clean=False)
    disk.log_start_offset = 50
    log = disk.open(is_clean=False)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert disk.names(".log") == ["00000000000000000050.log"]
    append_many(log, 1)
    assert read_all(log) == [(50, "value-000000")]


@pytest.mark.parametrize("is_clean", [True, False])
def test_idempotent_producers_go_on_when_the_log_is_opened_again(tmp_path: Path, is_clean: bool) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for sequence in range(25):
        append(log, sequenced(sequence), sequenced(sequence, producer_id=8))
    log.close(clean=is_clean)
    log = disk.open(is_clean=is_clean)
    again = log.append_as_leader(sequenced(24), 0, NOW)
    assert (again.is_duplicate, again.base_offset) == (True, 48)
    assert append(log, sequenced(25), sequenced(25, producer_id=8)) == [50, 51]


def test_producer_state_is_whole_when_every_snapshot_is_lost(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for sequence in range(25):
        append(log, sequenced(sequence))
    log.close(clean=False)
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    log = disk.open(is_clean=False)
    assert [entry.last_sequence for entry in log.producers.active()] == [24]
    assert len(log.producers.active()[0].batches) == 5
    assert len(disk.names(".snapshot")) == len(log.segments) - 1


def test_a_producer_goes_on_when_its_last_batch_was_deleted_after_the_snapshot(tmp_path: Path) -> None:
    """Symptom: OUT_OF_ORDER_SEQUENCE_NUMBER after a restart, for a producer that had made no mistake."""
    disk = Disk(tmp_path)
    log = disk.create()
    for sequence in range(15):
        append(log, sequenced(sequence))
    assert int(disk.names(".snapshot")[-1].split(".")[0]) == 14
    disk.log_start_offset = log.delete_records_before(15)
    log = disk.crash(log)
    assert append(log, sequenced(15)) == [15]


def test_open_transactions_are_known_when_recovered_from_the_log(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for producer_id in (1, 2):
        append(log, batch("t", producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True))
    marker = build_end_marker(
        EndMarker(CONTROL_ABORT, 3), producer_id=1, producer_epoch=0, timestamp=NOW, base_offset=2
    )
    log.append_as_follower(marker, NOW)
    log = disk.crash(log)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    assert {entry.producer_id: entry.coordinator_epoch for entry in log.producers.active()} == {1: 3, 2: -1}


def test_epochs_are_found_in_the_batches_when_their_file_was_not_written(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for epoch in (0, 3, 5):
        append(log, batch("a"), leader_epoch=epoch)
    log.close(clean=False)
    assert not (tmp_path / names.LEADER_EPOCHS).exists()
    log = disk.open(is_clean=False)
    assert log.epochs.end_offset_for(3, log.log_end_offset) == (3, 2)
    log.close(clean=True)
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == b"0\n3\n0 0\n3 1\n5 2\n"


# ---- files left behind


def test_dead_files_go_when_a_deletion_was_interrupted(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    filled(disk, 5).close(clean=True)
    for name in (
        "00000000000000000009.log.deleted",
        "00000000000000000009.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
    ):
        (tmp_path / name).write_bytes(b"dead")
    assert read_all(disk.open()) == expected(5)
    assert disk.names(".deleted") == disk.names(".cleaned") == disk.names(".tmp") == []
    assert not (tmp_path / "00000000000000000099.index").exists()


def test_a_swapped_segment_takes_its_place_when_a_compaction_was_interrupted(tmp_path: Path) -> None:
    source, disk = Disk(tmp_path / "source"), Disk(tmp_path / "disk")
    log = source.create()
    log.append_as_follower(batch("kept", base_offset=2), NOW)
    log.append_as_follower(batch("kept", base_offset=15), NOW)
    log.close(clean=True)
    filled(disk, 40).close(clean=True)
    bases = [int(name.split(".")[0]) for name in disk.names(".log")]
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.directory / f"{0:020d}{suffix}", disk.directory / f"{0:020d}{suffix}.swap")
    log = disk.open()
    found = read_all(log)
    assert found[:2] == [(2, "kept"), (15, "kept")]
    assert found[2][0] == min(base for base in bases if base > 15)
    assert disk.names(".swap") == []


def test_swap_files_go_when_their_set_was_not_finished(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    filled(disk, 5).close(clean=True)
    (tmp_path / f"{0:020d}.log.swap").write_bytes(b"unfinished")
    (tmp_path / f"{0:020d}.log.cleaned").write_bytes(b"unfinished")
    assert read_all(disk.open()) == expected(5)
    assert disk.names(".swap") == []


def test_stray_snapshots_go_when_they_belong_to_no_segment(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    filled(disk, 30).close(clean=True)
    kept = disk.names(".snapshot")
    for offset in (1, 2, 999):
        (tmp_path / f"{offset:020d}.snapshot").write_bytes(b"stray")
    disk.open()
    assert disk.names(".snapshot") == kept


def test_the_topic_id_is_read_back_when_its_file_is_kafkas(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.create().close(clean=True)
    assert encode_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    (tmp_path / names.PARTITION_METADATA).write_bytes(encode_partition_metadata(TOPIC_ID))
    assert disk.open().topic_id == TOPIC_ID


def test_all_epochs_are_found_after_a_crash_when_the_recovery_point_is_of_a_replica_that_had_the_name_before(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for epoch in range(4):
        append(log, *(batch(f"value-{number:06d}") for number in range(10)), leader_epoch=epoch)
    begun = list(log.epochs.entries)
    assert len(log.segments) > 1
    disk.recovery_point = log.log_end_offset  # nothing of this log was ever flushed
    log = disk.crash(log)
    assert log.epochs.entries == begun
    log.close(clean=True)
