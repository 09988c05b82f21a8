"""The cleaner's process when it has lost its broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.log.compaction.log_cleaner import CleanerLimits
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.compaction.worker import messages
from penstock.log.compaction.worker.messages import Lines
from penstock.log.compaction.worker.process import find_command
from penstock.log.partition_log import PartitionLog
from penstock.processes.server_process import pause_process
from tests.unit.log.compacted import COMPACTED, fill, latest, read_keyed
from tests.unit.log.support import NOW, Disk


class Orphan:
    """The process of a broker that was killed: nobody kills it, and nobody is at the other end of its pipes."""

    def __init__(self, log: PartitionLog, bytes_per_second: float) -> None:
        command = find_command()
        assert command is not None
        cleaning = log.compaction.begin_cleaning(log.compaction.measure_dirt(NOW), NOW, CleanerLimits())
        self.process = subprocess.Popen(
            [*command, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        request = {"clean": messages.encode_request(cleaning.request), "bytes_per_second": bytes_per_second}
        assert self.process.stdin is not None
        self.process.stdin.write(messages.encode(request))
        self.process.stdin.flush()

    def lose_broker(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def stop(self) -> None:
        pause_process(self.process.pid)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, settings=COMPACTED)


@pytest.fixture
def orphans() -> Iterator[list[Orphan]]:
    made: list[Orphan] = []
    yield made
    for orphan in made:
        orphan.process.kill()
        orphan.process.wait()


def wait_until_written(disk: Disk) -> None:
    for _ in range(6_000):
        if disk.names(".cleaned"):
            return
        time.sleep(0.01)
    raise AssertionError("the process writes nothing")


def test_orphan_does_no_harm_when_the_next_broker_has_begun_to_use_the_log(disk: Disk, orphans: list[Orphan]) -> None:
    log = disk.create()
    fill(log, 200)
    before = latest(read_keyed(log))
    orphan = Orphan(log, bytes_per_second=20_000)
    orphans.append(orphan)
    wait_until_written(disk)
    orphan.stop()
    orphan.lose_broker()
    log = disk.crash(log)
    log.advance_high_watermark(log.log_end_offset)
    assert disk.names(".cleaned") == []
    with pytest.raises(BlockingIOError):
        clean_log(log.compaction, NOW)
    orphan.go_on()
    assert orphan.process.wait(60) == 0
    clean_log(log.compaction, NOW)
    assert latest(read_keyed(log)) == before
    assert disk.names(".cleaned") == disk.names(".swap") == []


def test_orphan_ends_and_touches_nothing_when_its_replacement_was_being_put_in_place(
    disk: Disk, orphans: list[Orphan]
) -> None:
    """The kill came between the renames. What is left must look to the next start as the broker left it."""
    log = disk.create()
    fill(log, 200)
    before = latest(read_keyed(log))
    orphan = Orphan(log, bytes_per_second=1e300)
    orphans.append(orphan)
    output, lines = orphan.process.stdout, Lines()
    assert output is not None
    while (line := lines.take()) is None or b"replacement" not in line:
        if line is None:
            lines.feed(output.read1(65_536))  # type: ignore[attr-defined]
    index = disk.directory / "00000000000000000000.index"
    os.replace(f"{index}.cleaned", f"{index}.swap")
    names = set(os.listdir(disk.directory))
    orphan.lose_broker()
    assert orphan.process.wait(60) == 0
    assert set(os.listdir(disk.directory)) == names
    log = disk.crash(log)
    assert latest(read_keyed(log)) == before
    assert disk.names(".cleaned") == disk.names(".swap") == []


def test_process_ends_when_its_broker_is_not_its_parent_any_more(tmp_path: Path) -> None:
    """A pipe that another process inherited stays open; who the parent is cannot be inherited."""
    command = find_command()
    assert command is not None
    process = subprocess.Popen([*command, "1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.wait(60) == 0
    assert process.stdin is not None
    process.stdin.close()


def test_process_imports_little_when_it_starts() -> None:
    code = "import sys, penstock.log.compaction.worker.worker_process; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"asyncio", "subprocess", "uvloop", "penstock.log.partition_log", "penstock.broker", "starlette", "typer"}
    assert heavy & set(imported) == set()
