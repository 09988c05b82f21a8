"""Compaction in a process of its own: what becomes of it when that process is killed, hangs, or cannot be started."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.log.compaction.worker.process import CleanerProcess, Patience, find_command
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files
from tests.unit.broker.cleaning_rig import CleaningRig
from tests.unit.log.compacted import COMPACTED, fill, keyed, latest, read_keyed
from tests.unit.log.support import append

# So slow that a log of a few kilobytes takes a second for each pass.
SLOWLY = 20_000
FOREVER = 10


def command() -> tuple[str, ...]:
    found = find_command()
    assert found is not None
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Looks now and then: a test that is always at work would keep the process, which is nice, from a busy machine."""
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


class Rig(CleaningRig):
    def __init__(self, path: Path, process: CleanerProcess) -> None:
        super().__init__(path, process=process)
        self.process = process

    def limit(self, bytes_per_second: float) -> None:
        self.config = BrokerConfig.parse({"log.cleaner.io.max.bytes.per.second": str(bytes_per_second)})

    def unlimit(self) -> None:
        self.config = BrokerConfig.parse({})

    def filled_topic(self, name: str = "a") -> PartitionLog:
        """With 20 KB of records in it."""
        log = self.topic(name)
        fill(log, 200)
        return log

    def run_until(self, condition: Callable[[], bool], happen: Callable[[], None]) -> None:
        """Something happens in the middle of a cleaning."""

        async def scenario() -> None:
            work = asyncio.ensure_future(self.compaction.run())
            await until(condition)
            happen()
            await work

        asyncio.run(scenario())

    def send(self, number: signal.Signals) -> None:
        assert self.process.process_id is not None
        os.kill(self.process.process_id, number)

    def close(self) -> None:
        self.compaction.close()
        self.host.directories.close()


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(*words: str, **patience: float) -> Rig:
        made.append(Rig(tmp_path, CleanerProcess(words or command(), Patience(**patience))))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


MakeRig = Callable[..., Rig]


def is_being_read(rig: Rig, log: PartitionLog) -> bool:
    """By the working directory of the process."""
    process_id = rig.process.process_id
    try:
        return process_id is not None and os.readlink(f"/proc/{process_id}/cwd") == str(log.directory)
    except FileNotFoundError:
        return False


def is_being_written(rig: Rig, log: PartitionLog) -> bool:
    return any(log.directory.glob("*.cleaned"))


def leftovers(log: PartitionLog) -> list[str]:
    return [path.name for path in log.directory.iterdir() if path.suffix in (".cleaned", ".swap")]


def test_logs_are_cleaned_by_one_process_when_several_are_dirty(make_rig: MakeRig) -> None:
    rig = make_rig()
    a, b = rig.filled_topic("a"), rig.filled_topic("b")
    before = [latest(read_keyed(log)) for log in (a, b)]
    process_ids = [rig.process.process_id]
    rig.run()
    process_ids.append(rig.process.process_id)
    assert process_ids[0] is None
    assert process_ids[1] is not None
    assert a.compaction.cleaned_end == b.compaction.cleaned_end == a.compaction.measure_dirt(0).first_uncleanable_offset
    assert [latest(read_keyed(log)) for log in (a, b)] == before
    assert (rig.metrics.cleanings, rig.metrics.cleanings_failed) == (2, 0)
    assert rig.metrics.records_removed > 100
    assert leftovers(a) == leftovers(b) == []
    fill(a, 400, start=200)
    rig.run()
    assert rig.process.process_id == process_ids[1]


def test_process_ends_when_there_is_nothing_to_clean_for_a_while(make_rig: MakeRig) -> None:
    rig = make_rig(idle_seconds=0.05)
    log = rig.filled_topic()

    async def scenario() -> None:
        await rig.compaction.run()
        assert rig.process.process_id is not None
        await until(lambda: rig.process.process_id is None)

    asyncio.run(scenario())
    fill(log, 400, start=200)
    rig.run()
    assert rig.metrics.cleanings == 2


@pytest.mark.parametrize("moment", [is_being_read, is_being_written], ids=["while-reading", "while-writing"])
@pytest.mark.parametrize("accident", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hangs"])
def test_cleaning_is_given_up_and_tried_again_when_the_process_is_killed_or_hangs(
    make_rig: MakeRig,
    moment: Callable[[Rig, PartitionLog], bool],
    accident: signal.Signals,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = make_rig(silence_seconds=3.0 if accident is signal.SIGSTOP else 120.0)
    log = rig.filled_topic()
    before = latest(read_keyed(log))
    rig.limit(SLOWLY)
    with caplog.at_level(logging.WARNING):
        rig.run_until(lambda: moment(rig, log), lambda: rig.send(accident))
    assert "could not be compacted and is tried again later: the cleaner's process" in caplog.text
    assert (log.compaction.cleaned_end, log.offline_reason, log.compaction.is_cleaning) == (None, None, False)
    assert rig.metrics.cleanings_failed == 1
    assert rig.process.process_id is None
    assert leftovers(log) == []
    assert latest(read_keyed(log)) == before
    rig.unlimit()
    rig.process.patience = Patience()  # the process is nice: on busy cores it may say nothing for seconds
    rig.run()
    assert log.compaction.cleaned_end is not None
    assert latest(read_keyed(log)) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("/nowhere/python",), "No such file"),
        ((sys.executable, "-c", "raise SystemExit('no such module')"), "no such module"),
        ((sys.executable, "-c", "import time; time.sleep(600)"), "did not start within"),
        ((sys.executable, "-c", "print('{\"ready\": 99}', flush=True); input()"), "another version"),
    ],
    ids=["missing", "fails", "hangs", "another"],
)
def test_cleaning_goes_on_in_a_thread_when_the_process_cannot_be_started(
    make_rig: MakeRig, words: tuple[str, ...], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = make_rig(*words, start_seconds=0.5 if why == "did not start within" else 60.0)
    a, b = rig.filled_topic("a"), rig.filled_topic("b")
    with caplog.at_level(logging.WARNING):
        rig.run()
    assert None not in (a.compaction.cleaned_end, b.compaction.cleaned_end)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "in a thread" in warnings[0]
    assert why in warnings[0]


def test_process_is_tried_again_when_ten_minutes_have_passed_since_it_did_not_start(
    make_rig: MakeRig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = tmp_path / "allowed"
    worker = f"{sys.executable} -P -m penstock.log.compaction.worker $0"
    rig = make_rig("/bin/sh", "-c", f"test -e {allowed} || exit 1; exec {worker}")
    for name, minutes, is_process in (("a", 0, False), ("b", 9, False), ("c", 2, True)):
        rig.host.clock.advance(minutes * 60_000)
        log = rig.filled_topic(name)
        rig.run()
        assert log.compaction.cleaned_end is not None
        assert (rig.process.process_id is not None) == is_process
        allowed.touch()
    assert len([record for record in caplog.records if "in a thread" in record.getMessage()]) == 1


def test_log_is_tried_again_when_the_disk_refused_the_process(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.filled_topic("first")
    rig.run()
    assert rig.process.process_id is not None
    resource.prlimit(rig.process.process_id, resource.RLIMIT_FSIZE, (50, 50))
    log = rig.filled_topic()
    rig.run()
    assert (log.compaction.cleaned_end, log.offline_reason, rig.metrics.cleanings_failed) == (None, None, 1)
    assert leftovers(log) == []
    rig.run()
    assert log.compaction.cleaned_end is not None


def test_log_is_tried_again_when_the_process_has_no_memory(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.filled_topic("first")
    rig.run()
    assert rig.process.process_id is not None
    resource.prlimit(rig.process.process_id, resource.RLIMIT_AS, (1 << 20, 1 << 20))
    log = rig.filled_topic()
    log.update_settings(replace(COMPACTED, segment_bytes=1_000_000))
    append(log, *(keyed(("large", "x" * 900_000)) for _ in range(5)))
    rig.run()
    assert (log.compaction.cleaned_end, log.offline_reason, rig.metrics.cleanings_failed) == (None, None, 1)
    rig.run()
    assert log.compaction.cleaned_end is not None


def test_log_is_left_alone_for_good_when_the_process_finds_a_damaged_batch(
    make_rig: MakeRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig = make_rig()
    bad, good = rig.filled_topic("bad"), rig.filled_topic("good")
    path = bad.directory / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[80] ^= 0xFF
    path.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        rig.run()
        rig.run()
    assert good.compaction.cleaned_end is not None
    assert bad.compaction.cleaned_end is None
    assert rig.compaction.uncleanable_logs() == [bad]
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"{path} is damaged at position 0: the checksum does not match" in line


def test_log_waits_when_the_process_of_an_earlier_broker_still_cleans_it(make_rig: MakeRig) -> None:
    rig = make_rig()
    log = rig.filled_topic()
    orphan = Files().lock_directory(log.directory)
    rig.run()
    assert (log.compaction.cleaned_end, rig.metrics.cleanings_failed) == (None, 1)
    orphan.close()
    rig.run()
    assert log.compaction.cleaned_end is not None


def test_new_limit_counts_at_once_when_it_is_set_during_a_cleaning(make_rig: MakeRig) -> None:
    rig = make_rig()
    log = rig.filled_topic()
    rig.limit(FOREVER)
    rig.run_until(lambda: is_being_read(rig, log), rig.unlimit)
    assert log.compaction.cleaned_end is not None
    assert rig.metrics.cleanings_failed == 0


def test_cleaning_ends_quietly_when_its_topic_is_deleted(make_rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    rig = make_rig()
    log = rig.filled_topic()
    rig.limit(SLOWLY)
    with caplog.at_level(logging.WARNING):
        rig.run_until(lambda: is_being_written(rig, log), lambda: rig.host.apply())
    assert log.compaction.cleaned_end is None
    assert rig.compaction.uncleanable == {}
    assert rig.process.process_id is None
    assert caplog.text == ""


def test_nothing_is_left_behind_when_the_broker_stops_in_the_middle(make_rig: MakeRig) -> None:
    rig = make_rig()
    log = rig.filled_topic()
    before = read_keyed(log)
    rig.limit(SLOWLY)

    def stop() -> None:
        rig.limit(FOREVER)
        rig.is_stopping = True

    rig.run_until(lambda: is_being_written(rig, log), stop)
    assert leftovers(log) == []
    assert log.compaction.cleaned_end is None
    assert latest(read_keyed(log)) == latest(before)
    assert rig.process.process_id is None


def test_log_is_not_condemned_when_it_is_cut_while_the_process_reads_it(make_rig: MakeRig) -> None:
    rig = make_rig()
    log = rig.filled_topic()
    rig.limit(SLOWLY)
    rig.run_until(lambda: is_being_read(rig, log), lambda: log.truncate_to(100))
    assert rig.compaction.uncleanable == {}
    assert log.log_end_offset <= 100
    assert log.offline_reason is None


def test_settings_change_of_the_topic_counts_for_the_next_cleaning(make_rig: MakeRig) -> None:
    rig = make_rig()
    log = rig.filled_topic()
    rig.limit(SLOWLY)

    def change() -> None:
        log.update_settings(replace(COMPACTED, segment_bytes=2_000, cleanup_policy=frozenset({"delete"})))
        rig.unlimit()

    rig.run_until(lambda: is_being_written(rig, log), change)
    assert log.compaction.cleaned_end is not None
    assert latest(read_keyed(log)) == {f"k{key}": f"v{395 + key}" for key in range(5)}
