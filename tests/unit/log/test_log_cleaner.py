"""A partition before and after its cleaning."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.log_cleaner import CleanerLimits
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.compaction.offset_map import ENTRY_BYTES
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.compression import Codec
from penstock.testing.disks.faulty_files import Fault
from tests.unit.log.compacted import (
    COMPACTED,
    UnsyncedFiles,
    batches,
    fill,
    keyed,
    latest,
    read_keyed,
    roll,
    with_settings,
)
from tests.unit.log.support import (
    NOW,
    Disk,
    append,
    batch,
    contents,
    end_transaction,
    read_all,
    read_committed,
    sequenced,
    transactional,
)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, settings=COMPACTED)


def sealed_end(log: PartitionLog) -> int:
    return log.compaction.measure_dirt(NOW).first_uncleanable_offset


class TestRecords:
    def test_last_record_of_each_key_stays_when_a_log_is_cleaned(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        before, end = read_keyed(log), sealed_end(log)
        cleaning = clean_log(log.compaction, NOW)
        after = read_keyed(log)
        newest = {key: offset for offset, key, _ in before if offset < end}
        assert after == [found for found in before if found[0] >= end or newest[found[1]] == found[0]]
        assert (log.compaction.cleaned_end, cleaning.end_offset) == (end, end)
        assert cleaning.statistics.records_kept < cleaning.statistics.records_read == end
        assert log.log_start_offset == 0

    def test_reader_finds_the_latest_values_when_it_starts_at_any_offset(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        expected = latest(read_keyed(log))
        clean_log(log.compaction, NOW)
        assert latest(read_keyed(log)) == expected
        for start in range(log.log_end_offset):
            found = read_keyed(log, start)
            assert [each[0] for each in found] == sorted({each[0] for each in found})
            table = latest(found)
            assert table == {key: expected[key] for key in table}

    def test_segments_become_one_when_they_fit_together(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 100)
        clean_log(log.compaction, NOW)
        few = len(log.segments)
        fill(log, 20, start=100)
        clean_log(log.compaction, NOW)
        assert len(log.segments) < few
        assert log.size < 2 * COMPACTED.segment_bytes + COMPACTED.segment_bytes // 2
        assert latest(read_keyed(log)) == {f"k{key}": f"v{240 - 5 + key}" for key in range(5)}

    def test_nothing_is_written_when_nothing_would_change(self, disk: Disk) -> None:
        log = disk.create()
        for number in range(30):
            append(log, keyed((f"only-{number}", "v" * 50)))
        names = disk.names(".log")
        cleaning = clean_log(log.compaction, NOW)
        assert cleaning.statistics.segments_written == 0
        assert disk.names(".log") == names
        assert disk.names(".cleaned") == disk.names(".deleted") == []
        assert log.compaction.cleaned_end == sealed_end(log)

    @pytest.mark.parametrize("codec", list(Codec))
    def test_codec_stays_when_records_of_a_batch_go(self, disk: Disk, codec: Codec) -> None:
        log = disk.create()
        append(log, keyed(("a", "1" * 300), ("b", "2" * 300), codec=codec), keyed(("a", "3"), codec=codec))
        roll(log)
        clean_log(log.compaction, NOW)
        assert read_keyed(log)[:2] == [(1, "b", "2" * 300), (2, "a", "3")]
        header, _ = batches(log)[0]
        assert (header.compression, header.base_offset, header.last_offset, header.record_count) == (codec, 0, 1, 1)

    def test_batch_is_the_same_bytes_when_all_of_it_stays(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(("a", "1"), ("b", "2"), codec=Codec.GZIP), keyed(("c", "3")), keyed(("c", "4")))
        roll(log)
        before = batches(log)
        clean_log(log.compaction, NOW)
        after = batches(log)
        assert after[:2] == [before[0], before[2]]

    def test_offsets_and_epochs_stay_when_the_log_is_opened_again(self, disk: Disk) -> None:
        log = disk.create()
        for epoch in range(3):
            for number in range(20):
                append(log, keyed((f"k{number % 3}", f"{epoch}")), leader_epoch=epoch)
        clean_log(log.compaction, NOW)
        before = read_keyed(log)
        epochs = [log.epochs.end_offset_for(epoch, log.log_end_offset) for epoch in range(4)]
        end = log.log_end_offset
        for reopen in (disk.reopen, disk.crash):
            log = reopen(log)
            assert (log.log_start_offset, log.log_end_offset) == (0, end)
            assert read_keyed(log) == before
            assert [log.epochs.end_offset_for(epoch, log.log_end_offset) for epoch in range(4)] == epochs

    def test_indexes_find_what_is_there_when_segments_were_cleaned(self, disk: Disk) -> None:
        log = disk.create()
        for number in range(80):
            append(log, keyed((f"k{number % 30}", f"v{number}"), timestamp=NOW + number))
        clean_log(log.compaction, NOW)
        for offset, _, value in read_keyed(log):
            found = log.reader.find_by_timestamp(NOW + offset)
            assert found is not None
            assert found.offset == offset
            assert read_keyed(log, offset)[0][2] == value

    def test_slice_stays_readable_when_its_segment_was_replaced(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        slice_ = log.reader.read(0, 500, log.log_end_offset, at_least_one=True)
        before = contents(slice_)
        clean_log(log.compaction, NOW)
        disk.deletes.remove_due(NOW + 60_000)
        assert disk.names(".deleted") == []
        assert contents(slice_) == before

    def test_records_without_keys_go_when_the_topic_became_compacted(self, disk: Disk) -> None:
        disk.settings = with_settings(cleanup_policy=frozenset({"delete"}))
        log = disk.create()
        records = [keyed((f"k{number}", "v")) for number in range(3)]
        append(log, records[0], batch("no key", key=None), records[1])
        log.update_settings(COMPACTED)
        roll(log)
        clean_log(log.compaction, NOW)
        assert [found[1] for found in read_keyed(log)][:2] == ["k0", "k1"]


class TestTombstones:
    def test_tombstone_goes_when_its_retention_is_over(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(("a", "1"), ("b", "1")), keyed(("a", None)))
        roll(log)
        clean_log(log.compaction, NOW)
        assert read_keyed(log)[:2] == [(1, "b", "1"), (2, "a", None)]
        header, _ = batches(log)[1]
        assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW + 1_000)
        assert log.compaction.delete_horizon_ms == NOW + 1_000
        clean_log(log.compaction, NOW + 999)
        assert read_keyed(log)[1] == (2, "a", None)
        assert batches(log)[1][0].base_timestamp == NOW + 1_000
        clean_log(log.compaction, NOW + 1_000)
        assert [found[1] for found in read_keyed(log)][:1] == ["b"]
        assert "a" not in latest(read_keyed(log))
        assert all(found[1] != "a" for found in read_keyed(log))
        assert log.compaction.delete_horizon_ms is None

    def test_log_is_worth_cleaning_when_a_tombstone_is_due_and_nothing_is_dirty(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(("a", "1")), keyed(("a", None), ("b", "2")))
        roll(log)
        clean_log(log.compaction, NOW)
        assert not log.compaction.measure_dirt(NOW + 999).is_worth_cleaning(0.5)
        assert log.compaction.measure_dirt(NOW + 1_000).is_worth_cleaning(0.5)
        clean_log(log.compaction, NOW + 1_000)
        # The batch still bears the horizon; there is nothing left that waits for it.
        assert batches(log)[0][0].has_delete_horizon
        assert not log.compaction.measure_dirt(NOW + 5_000).is_worth_cleaning(0.5)

    def test_tombstone_goes_at_once_when_a_newer_record_has_its_key(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(("a", None)), keyed(("a", "2")))
        roll(log)
        clean_log(log.compaction, NOW)
        assert read_keyed(log)[0] == (1, "a", "2")


class TestBounds:
    def test_active_segment_is_never_touched_when_cleaning(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 3)
        before = disk.log_file().read_bytes()
        cleaning = clean_log(log.compaction, NOW)
        assert cleaning.statistics.bytes_read == 0
        assert disk.log_file().read_bytes() == before

    def test_nothing_past_the_last_stable_offset_is_cleaned_when_a_transaction_is_open(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 20)
        append(log, transactional(0))
        (opened_at,) = [offset for offset, value in read_all(log) if value == "t0"]
        fill(log, 40, start=20)
        assert log.last_stable_offset == opened_at
        before = read_keyed(log, opened_at)
        cleaning = clean_log(log.compaction, NOW)
        assert cleaning.end_offset <= opened_at
        assert read_keyed(log, opened_at) == before

    def test_high_watermark_is_a_limit_when_records_are_not_replicated(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 20)
        watermark = log.high_watermark
        for number in range(40):
            log.append_as_leader(keyed((f"k{number % 5}", "late")), 0, NOW)
        assert clean_log(log.compaction, NOW).end_offset <= watermark

    def test_cleaning_goes_on_where_it_stopped_when_the_map_is_too_small(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60, keys=40)
        before = read_keyed(log)
        end = sealed_end(log)
        ends = []
        while (log.compaction.cleaned_end or 0) < end:
            cleaning = clean_log(log.compaction, NOW, CleanerLimits(memory=ENTRY_BYTES * 10, load_factor=1.0))
            ends.append(cleaning.end_offset)
            assert latest(read_keyed(log)) == latest(before)
        assert ends == sorted(set(ends))
        assert len(ends) > 3
        newest = {key: offset for offset, key, _ in before if offset < end}
        assert read_keyed(log) == [found for found in before if found[0] >= end or newest[found[1]] == found[0]]

    def test_one_batch_is_always_taken_when_the_map_is_smaller_than_it(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(*((f"k{number}", "v") for number in range(10))))
        roll(log)
        cleaning = clean_log(log.compaction, NOW, CleanerLimits(memory=1))
        assert cleaning.end_offset == 10

    def test_checkpoint_follows_when_the_log_is_truncated(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        clean_log(log.compaction, NOW)
        assert log.compaction.cleaned_end is not None
        log.truncate_to(30)
        assert log.compaction.cleaned_end == log.log_end_offset <= 30

    def test_records_before_the_log_start_stay_gone_when_cleaned(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        log.delete_records_before(45)
        expected = latest(read_keyed(log))
        clean_log(log.compaction, NOW)
        assert log.log_start_offset == 45
        assert latest(read_keyed(log)) == expected
        log.apply_retention(NOW)
        assert log.log_start_offset == 45
        assert log.segments.first.base_offset <= 45

    def test_old_segments_go_as_well_when_the_policy_is_compact_and_delete(self, disk: Disk) -> None:
        disk.settings = with_settings(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1_000)
        log = disk.create()
        fill(log, 60)
        clean_log(log.compaction, NOW)
        assert log.apply_retention(NOW + 500) == []
        deleted = log.apply_retention(NOW + 5_000)
        assert deleted
        assert read_keyed(log) == []
        assert log.log_start_offset == log.log_end_offset

    def test_segments_roll_when_the_maximum_lag_is_shorter_than_their_time(self, disk: Disk) -> None:
        disk.settings = with_settings(max_compaction_lag_ms=100, segment_bytes=100_000)
        log = disk.create()
        append(log, keyed(("a", "1")), keyed(("a", "2"), timestamp=NOW + 101), now_ms=NOW + 1_000)
        assert len(log.segments) == 2
        assert log.compaction.measure_dirt(NOW + 102).is_worth_cleaning(1.0)


class TestProducers:
    def test_producer_goes_on_when_its_records_were_compacted(self, disk: Disk) -> None:
        log = disk.create()
        append(log, sequenced(0, 2))
        append(log, sequenced(2, 2))
        append(log, keyed(("k", "newer")))
        roll(log)
        clean_log(log.compaction, NOW)
        kept = [header for header, _ in batches(log) if header.producer_id == 7]
        assert [(header.record_count, header.last_sequence) for header in kept] == [(0, 3)]
        for file in disk.directory.glob("*.snapshot"):
            file.unlink()
        log = disk.crash(log)
        assert log.append_as_leader(sequenced(2, 2), 0, NOW).is_duplicate
        assert not log.append_as_leader(sequenced(4), 0, NOW).is_duplicate

    def test_last_batch_of_a_segment_stays_when_all_of_its_records_go(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        clean_log(log.compaction, NOW)
        segments = [int(name[:20]) for name in disk.names(".log")]
        ends = {header.next_offset for header, _ in batches(log)}
        assert set(segments[1:]) <= ends

    def test_snapshots_go_when_their_segments_were_joined(self, disk: Disk) -> None:
        log = disk.create()
        append(log, sequenced(0))
        for start in (0, 60):
            fill(log, 60, start=start)
            clean_log(log.compaction, NOW)
        bases = {name[:20] for name in disk.names(".log")}
        assert {name[:20] for name in disk.names(".snapshot")} <= bases


class TestTransactions:
    def test_aborted_records_go_at_once_and_their_marker_later_when_cleaned(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(("k", "kept")), transactional(0, 2), transactional(2))
        marker = end_transaction(log, is_commit=False)
        append(log, sequenced(0, producer_id=8))
        append(log, transactional(3))  # the producer's last batch is another
        end_transaction(log, is_commit=True)
        roll(log)
        disk.settings = COMPACTED
        clean_log(log.compaction, NOW)
        values = [value for _, value in read_all(log)]
        assert not {"t0", "t1", "t2"} & set(values)
        # Key "k" is that of the transactions too: an aborted record supersedes nothing, the committed one did.
        assert "t3" in values
        assert [each.first_offset for each in log.reader.aborted_transactions(0, log.log_end_offset)] == [1]
        assert any(header.base_offset == marker for header, _ in batches(log))
        clean_log(log.compaction, NOW)  # nothing of the transaction is left: the marker's time begins
        (stamped,) = [header for header, _ in batches(log) if header.base_offset == marker]
        assert stamped.base_timestamp == NOW + 1_000
        assert log.reader.aborted_transactions(0, log.log_end_offset) == []
        clean_log(log.compaction, NOW + 1_000)
        assert not any(header.base_offset == marker for header, _ in batches(log))

    def test_aborted_record_supersedes_nothing_when_it_has_the_key(self, disk: Disk) -> None:
        log = disk.create()
        append(log, keyed(("k", "committed")), transactional(0))
        end_transaction(log, is_commit=False)
        roll(log)
        clean_log(log.compaction, NOW)
        assert read_keyed(log)[0] == (0, "k", "committed")

    def test_reader_of_committed_records_sees_the_same_when_cleaned_and_reopened(self, disk: Disk) -> None:
        log = disk.create()
        sequence = 0
        for number in range(40):
            append(log, transactional(sequence, 2))
            fill(log, 1, keys=7, start=number)
            end_transaction(log, is_commit=number % 3 == 0)
            sequence += 2
        roll(log)
        committed = read_committed(log, 0)
        newest = max(offset for offset, value in read_all(log) if offset in committed and value.startswith("t"))
        for now_ms in (NOW, NOW, NOW + 1_000, NOW + 3_000):
            clean_log(log.compaction, now_ms)
            found = {offset for offset, _ in read_all(log)} & set(read_committed(log, 0))
            assert newest in found
            assert found <= set(committed)
            log = disk.reopen(log)
            log.advance_high_watermark(log.log_end_offset)
            assert {offset for offset, _ in read_all(log)} & set(read_committed(log, 0)) == found

    def test_marker_stays_when_a_committed_record_of_its_transaction_stays(self, disk: Disk) -> None:
        log = disk.create()
        append(log, transactional(0))
        marker = end_transaction(log, is_commit=True)
        roll(log)
        for now_ms in (NOW, NOW + 5_000, NOW + 10_000):
            clean_log(log.compaction, now_ms)
        assert [header.base_offset for header, _ in batches(log) if header.is_control] == [marker]
        assert not next(header for header, _ in batches(log) if header.is_control).has_delete_horizon


class TestTrouble:
    @pytest.mark.parametrize(("position", "why"), [(80, "checksum"), (5, "out of order"), (16, "magic")])
    def test_cleaning_stops_and_the_log_is_served_when_a_batch_is_damaged(
        self, disk: Disk, position: int, why: str
    ) -> None:
        log = disk.create()
        fill(log, 60)
        second = sorted(disk.directory.glob("*.log"))[1]
        content = bytearray(second.read_bytes())
        content[position] ^= 0xFF
        second.write_bytes(content)
        before = disk.names(".log")
        with pytest.raises(CorruptLogError, match=why):
            clean_log(log.compaction, NOW)
        assert disk.names(".log") == before
        assert disk.names(".cleaned") == []
        assert log.offline_reason is None
        assert not log.compaction.is_cleaning
        assert log.compaction.cleaned_end is None

    def test_log_goes_on_when_the_disk_is_full_for_the_cleaned_segment(self, tmp_path: Path) -> None:
        files = UnsyncedFiles()
        disk = Disk(tmp_path, files, COMPACTED)
        log = disk.create()
        fill(log, 60)
        before = read_keyed(log)
        for operation in ("create", "write", "write_file", "sync"):
            files.fail(Fault.on(operation, ".cleaned", errno.ENOSPC, 10))
            with pytest.raises(OSError, match="space"):
                clean_log(log.compaction, NOW)
            files.heal()
            assert disk.names(".cleaned") == []
            assert log.offline_reason is None
            assert read_keyed(log) == before
        clean_log(log.compaction, NOW)
        assert latest(read_keyed(log)) == latest(before)

    def test_leftovers_do_not_spoil_a_later_replacement_when_they_could_not_be_removed(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        leftover = disk.directory / "00000000000000000000.log.cleaned"
        leftover.write_bytes(b"x" * 5_000)
        cleaning = log.compaction.begin_cleaning(log.compaction.measure_dirt(NOW), NOW, CleanerLimits())
        steps = cleaning.steps()
        step = next(step for step in steps if isinstance(step, Replacement))
        assert leftover.stat().st_size == step.size < 5_000

    def test_replacement_is_refused_when_the_log_was_cut_meanwhile(self, disk: Disk) -> None:
        log = disk.create()
        fill(log, 60)
        cleaning = log.compaction.begin_cleaning(log.compaction.measure_dirt(NOW), NOW, CleanerLimits())
        step = next(step for step in cleaning.steps() if isinstance(step, Replacement))
        assert log.compaction.can_replace(step)
        log.truncate_to(100)
        assert not log.compaction.can_replace(step)
        log.compaction.end_cleaning(cleaning.outcome)
        assert log.compaction.cleaned_end is None

    def test_partition_goes_offline_when_putting_in_place_fails(self, tmp_path: Path) -> None:
        files = UnsyncedFiles()
        disk = Disk(tmp_path, files, COMPACTED)
        log = disk.create()
        fill(log, 60)
        before = latest(read_keyed(log))
        files.fail(Fault.on("rename", ".deleted"))
        with pytest.raises(Exception, match="offline"):
            clean_log(log.compaction, NOW)
        assert log.offline_reason is not None
        files.heal()
        log = disk.open(is_clean=False)
        assert latest(read_keyed(log)) == before

    def test_modification_time_is_that_of_the_old_segment_when_replaced(self, tmp_path: Path) -> None:
        disk = Disk(tmp_path, settings=LogSettings(segment_bytes=1000, cleanup_policy=frozenset({"compact"})))
        log = disk.create()
        fill(log, 60)
        for path in disk.directory.glob("*.log"):
            os.utime(path, (1_000_000, 1_000_000))
        clean_log(log.compaction, NOW)
        assert disk.log_file().stat().st_mtime == 1_000_000
