from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.log.partition_log import PartitionLog
from penstock.testing.disks.faulty_files import Fault
from tests.unit.broker.cleaning_rig import CleaningRig
from tests.unit.broker.harness import topic_image
from tests.unit.log.compacted import COMPACTED, UnsyncedFiles, fill, keyed, latest, read_keyed, roll
from tests.unit.log.support import append


class Rig(CleaningRig):
    def topics(self, *names: str, **settings: object) -> list[PartitionLog]:
        return [self.topic(name, replace(COMPACTED, **settings)) for name in names]  # type: ignore[arg-type]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, UnsyncedFiles())
    yield made
    made.compaction.close()
    made.host.directories.close()


def test_dirty_logs_are_cleaned_when_it_runs(rig: Rig) -> None:
    a, b, other = rig.topics("a", "b", "other")
    other.update_settings(replace(COMPACTED, cleanup_policy=frozenset({"delete"})))
    for log in (a, b, other):
        fill(log, 60)
    tables = [latest(read_keyed(log)) for log in (a, b, other)]
    rig.run()
    assert a.compaction.cleaned_end == b.compaction.cleaned_end == a.compaction.measure_dirt(0).first_uncleanable_offset
    assert other.compaction.cleaned_end is None
    assert [latest(read_keyed(log)) for log in (a, b, other)] == tables
    assert rig.metrics.cleanings == 2
    assert rig.metrics.records_removed > 100
    assert 0 < rig.metrics.bytes_written < rig.metrics.bytes_read
    assert rig.metrics.max_dirty_percent == 0
    assert not a.compaction.is_cleaning


def test_checkpoint_is_on_disk_and_read_back_when_a_log_was_cleaned(rig: Rig, tmp_path: Path) -> None:
    (log,) = rig.topics("a")
    fill(log, 60)
    rig.run()
    rig.host.directories.write_checkpoints()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\na 0 {log.compaction.cleaned_end}\n"
    rig.host.directories.close()
    rig.host.open()
    assert rig.host.directories.logs[log.topic_partition].compaction.cleaned_end == log.compaction.cleaned_end


def test_nothing_happens_when_the_cleaner_is_switched_off(rig: Rig) -> None:
    (log,) = rig.topics("a")
    fill(log, 60)
    rig.config = BrokerConfig.parse({"log.cleaner.enable": "false"})
    rig.run()
    assert log.compaction.cleaned_end is None


def test_dirtiest_log_is_first_when_several_are_dirty(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    a, b = rig.topics("a", "b", min_cleanable_dirty_ratio=0.1)
    fill(a, 60)
    rig.run()
    fill(a, 20, start=60)
    fill(b, 60)
    name = "penstock.broker.upkeep.compaction"
    with caplog.at_level(logging.INFO, name):
        rig.run()
    # Tests before this one may have left other loggers at that level, too.
    said = [record for record in caplog.records if record.name == name]
    assert [record.args[0] for record in said] == [b.topic_partition, a.topic_partition]  # type: ignore[index]


def test_damaged_log_is_left_alone_and_others_go_on_when_a_batch_is_corrupt(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = rig.topics("bad", "good")
    fill(bad, 60)
    fill(good, 60)
    path = bad.directory / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[80] ^= 0xFF
    path.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        rig.run()
        rig.run()
    assert good.compaction.cleaned_end is not None
    assert bad.compaction.cleaned_end is None
    assert len([record for record in caplog.records if "not compacted any more" in record.getMessage()]) == 1
    assert rig.compaction.uncleanable_logs() == [bad]
    assert rig.compaction.uncleanable_bytes(bad.directory.parent) > 1_000
    rig.host.apply(topic_image("good"))  # the topic is deleted
    assert rig.compaction.uncleanable_logs() == []


def test_log_is_tried_again_when_the_disk_was_full(tmp_path: Path) -> None:
    files = UnsyncedFiles()
    rig = Rig(tmp_path, files)
    (log,) = rig.topics("a")
    fill(log, 60)
    files.fail(Fault.on("write", ".cleaned", errno.ENOSPC))
    rig.run()
    assert (log.compaction.cleaned_end, log.offline_reason) == (None, None)
    files.heal()
    rig.run()
    assert log.compaction.cleaned_end is not None
    rig.compaction.close()


def test_partition_goes_offline_alone_when_its_replacement_cannot_be_committed(tmp_path: Path) -> None:
    files = UnsyncedFiles()
    rig = Rig(tmp_path, files)
    bad, good = rig.topics("bad", "good")
    fill(bad, 60)
    fill(good, 60)
    files.fail(Fault.on("rename", "bad-0/00000000000000000000.index.swap"))
    rig.run()
    assert bad.offline_reason is not None
    assert good.compaction.cleaned_end is not None
    rig.compaction.close()


@pytest.mark.parametrize("suffix", [".index.swap", ".timeindex.swap", ".log.swap"])
def test_next_start_finds_the_old_segment_whole_when_its_replacement_was_committed_in_part(
    tmp_path: Path, suffix: str
) -> None:
    """The index of the new segment must not be taken for that of the old one."""
    files = UnsyncedFiles()
    rig = Rig(tmp_path, files)
    (log,) = rig.topics("a")
    for number in range(120):
        append(log, keyed((f"k{number % 7}" if number % 3 else f"only-{number}", "v" * (number % 17 + 1))))
    before = read_keyed(log)
    log.flushing.flush()
    rig.host.directories.write_checkpoints()  # the next start trusts the indexes before the recovery point
    files.fail(Fault.on("rename", f"a-0/00000000000000000000{suffix}"))
    rig.run()
    assert log.offline_reason is not None
    assert (log.directory / "00000000000000000000.log.cleaned").exists()  # says that the set is not finished
    files.heal()
    rig.host.directories.close(clean=False)
    rig.host.open()
    again = rig.host.directories.logs[log.topic_partition]
    assert again.log_end_offset == 120
    assert not list(again.directory.glob("*.swap")) + list(again.directory.glob("*.cleaned"))
    for offset in range(0, again.log_end_offset, 3):
        assert read_keyed(again, offset) == [each for each in before if each[0] >= offset]
    rig.compaction.close()
    rig.host.directories.close()


async def interrupted(rig: Rig, happen: Callable[[], None]) -> None:
    """Something happens while the first slice runs."""
    work = asyncio.ensure_future(rig.compaction.run())
    await asyncio.sleep(0)
    happen()
    await work


def test_nothing_is_left_behind_when_the_broker_stops_in_the_middle(rig: Rig) -> None:
    (log,) = rig.topics("a")
    fill(log, 60)
    before = read_keyed(log)

    def stop() -> None:
        rig.is_stopping = True

    asyncio.run(interrupted(rig, stop))
    assert log.compaction.cleaned_end is None
    assert not list(log.directory.glob("*.cleaned"))
    assert latest(read_keyed(log)) == latest(before)
    assert not log.compaction.is_cleaning


def test_cleaning_ends_quietly_when_its_topic_is_deleted(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    (log,) = rig.topics("a")
    fill(log, 200)

    with caplog.at_level(logging.ERROR):
        asyncio.run(interrupted(rig, lambda: rig.host.apply()))
    assert log.compaction.cleaned_end is None
    assert rig.compaction.uncleanable == {}


def test_appends_and_reads_go_on_when_a_log_is_being_cleaned(rig: Rig) -> None:
    (log,) = rig.topics("a")
    fill(log, 100)

    async def scenario() -> None:
        work = asyncio.ensure_future(rig.compaction.run())
        for number in range(100, 130):
            fill(log, 1, start=number)
            assert latest(read_keyed(log))[f"k{(2 * number + 1) % 5}"] == f"v{2 * number + 1}"
            await asyncio.sleep(0)
        await work

    asyncio.run(scenario())
    assert log.compaction.cleaned_end is not None


def test_retention_follows_when_the_policy_is_compact_and_delete(rig: Rig) -> None:
    (log,) = rig.topics("a", cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1_000)
    fill(log, 60)
    rig.host.clock.advance(5_000)
    rig.run()
    assert log.log_start_offset == log.log_end_offset


def test_tombstones_go_in_the_end_when_nothing_more_is_written(rig: Rig) -> None:
    (log,) = rig.topics("a")
    append(log, keyed(("gone", "1")), keyed(("gone", None)))
    roll(log)
    rig.run()
    assert any(key == "gone" for _, key, _ in read_keyed(log))
    rig.host.clock.advance(1_000)
    rig.run()
    assert not any(key == "gone" for _, key, _ in read_keyed(log))
    cleanings = rig.metrics.cleanings
    rig.host.clock.advance(1_000_000)
    rig.run()
    assert rig.metrics.cleanings == cleanings
