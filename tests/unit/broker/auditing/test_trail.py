"""The audit trail of one broker: queue, numbers, files."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.broker.auditing.event_numbers import Numbering
from penstock.broker.auditing.file_sink import FileSink, rotated_files
from penstock.broker.auditing.sink_queue import SinkQueue
from penstock.broker.auditing.trail import AuditTrail
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.sections import AuditSection
from penstock.core.metrics.counters import AuditMetrics
from penstock.log.storage.files import Files
from penstock.security.audit.cloud_events import Numbered, decode
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.security.audit.trail_check import STARTED, STOPPED, Check
from penstock.testing.clock import ManualClock
from tests.waiting import until

SOURCE = "penstock://c/brokers/1"


def settings(**given: str) -> AuditSection:
    properties = {f"penstock.audit.{name.replace('_', '.')}": value for name, value in given.items()}
    return BrokerConfig.parse({"log.dirs": "/unused", **properties}).audit


def change(name: str) -> AuditEvent:
    return AuditEvent(AuditKind.CHANGE, "CreateTopics", is_allowed=True, resource=f"Topic:{name}")


def write_of(principal: str) -> AuditEvent:
    return AuditEvent(AuditKind.WRITE, "Produce", is_allowed=True, principal=principal, details={"bytes": 7})


class Shelf:
    """A sink in memory, which can be held and can fail."""

    name = "shelf"

    def __init__(self) -> None:
        self.events: list[Numbered] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.failures = 0
        self.is_closed = False
        self._has_taken = asyncio.Event()

    async def taken(self) -> None:
        """Something was written, and its writer knows."""
        await self._has_taken.wait()
        await asyncio.sleep(0)

    async def write(self, events: Sequence[Numbered]) -> None:
        await self.is_open.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("the shelf is broken")
        self.events += events
        self._has_taken.set()

    def close(self) -> None:
        self.is_closed = True

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.events]

    @property
    def words(self) -> list[str]:
        return [each.event.resource or each.event.what for each in self.events]


async def opened(tmp_path: Path, *sinks: Shelf, **given: str) -> tuple[AuditTrail, AuditMetrics]:
    metrics = AuditMetrics()
    trail = AuditTrail(settings(**given), ManualClock(), metrics)
    await trail.start(Numbering(tmp_path / "sequence", Files()), sinks, 0)
    return trail, metrics


def test_events_are_numbered_in_order_when_the_trail_runs(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        trail, _ = await opened(tmp_path, shelf)
        trail.record(change("a"))
        trail.record(change("b"))
        await trail.stop()
        assert shelf.words == [STARTED, "Topic:a", "Topic:b", STOPPED]
        assert shelf.numbers == [1, 2, 3, 4]
        assert shelf.is_closed

    asyncio.run(run())


def test_broker_goes_on_closing_when_the_end_of_the_trail_cannot_be_written_down(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        (tmp_path / "gone").mkdir()
        trail, _ = await opened(tmp_path / "gone", shelf)
        (tmp_path / "gone" / "sequence").unlink()
        (tmp_path / "gone").rmdir()
        await trail.stop()
        assert shelf.words == [STARTED, STOPPED]

    asyncio.run(run())


def test_early_events_are_counted_when_there_are_more_than_may_wait(tmp_path: Path) -> None:
    metrics = AuditMetrics()
    trail = AuditTrail(settings(queue_max_events="2"), ManualClock(), metrics)
    for name in "abc":
        trail.record(change(name))
    assert metrics.dropped == {"early": 1}


def test_numbers_go_on_without_a_gap_when_the_broker_stopped_cleanly(tmp_path: Path) -> None:
    async def run() -> None:
        first, second = Shelf(), Shelf()
        trail, _ = await opened(tmp_path, first)
        await trail.stop()
        trail, _ = await opened(tmp_path, second)
        await trail.stop()
        assert second.numbers[0] == first.numbers[-1] + 1
        assert second.events[0].event.details["clean"] is True

    asyncio.run(run())


def test_numbers_jump_and_the_start_says_so_when_the_broker_was_killed(tmp_path: Path) -> None:
    async def run() -> None:
        first, second = Shelf(), Shelf()
        killed, _ = await opened(tmp_path, first)
        killed.record(change("a"))
        trail, _ = await opened(tmp_path, second)
        await trail.stop()
        assert second.numbers[0] > 10_000
        assert second.events[0].event.details["clean"] is False
        await killed.stop()

    asyncio.run(run())


def test_events_that_came_before_the_start_are_kept(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        trail = AuditTrail(settings(), ManualClock(), AuditMetrics())
        trail.record(change("early"))
        await trail.start(Numbering(tmp_path / "sequence", Files()), [shelf], 0)
        await trail.stop()
        assert shelf.words == [STARTED, "Topic:early", STOPPED]

    asyncio.run(run())


def test_events_are_dropped_and_counted_and_leave_a_gap_when_the_queue_is_full(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        shelf.is_open.clear()
        trail, metrics = await opened(tmp_path, shelf, queue_max_events="3")
        for number in range(10):
            trail.record(change(str(number)))
        assert not trail.refuses  # nobody asked for it
        assert trail.waiting == 3
        shelf.is_open.set()
        await shelf.taken()
        await trail.stop()
        assert metrics.dropped == {"shelf": 8}
        assert shelf.words == [STARTED, "Topic:0", "Topic:1", STOPPED]
        assert shelf.numbers == [1, 2, 3, 12]

    asyncio.run(run())


def test_trail_refuses_when_it_is_full_and_its_owner_wants_nothing_unseen(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        shelf.is_open.clear()
        trail, _ = await opened(tmp_path, shelf, queue_max_events="2", full="refuse")
        refused = [trail.refuses]
        trail.record(change("a"))
        refused.append(trail.refuses)
        shelf.is_open.set()
        await shelf.taken()
        assert [*refused, trail.refuses] == [False, True, False]
        await trail.stop()

    asyncio.run(run())


def test_nothing_is_lost_when_a_sink_fails_for_a_moment(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        shelf.failures = 1
        trail, metrics = await opened(tmp_path, shelf)
        trail.record(change("a"))
        await trail.stop()
        assert shelf.words == [STARTED, "Topic:a", STOPPED]
        assert metrics.failures == 1

    asyncio.run(run())


def test_events_are_counted_when_the_sink_refuses_them_until_the_broker_stops() -> None:
    """As the leader of the topic does that does not know this broker by name, in the middle of a rolling change."""

    async def reserve(number: int) -> None:
        pass

    async def run() -> None:
        shelf, metrics = Shelf(), AuditMetrics()
        shelf.failures = 1_000
        queue = SinkQueue(shelf, 10, metrics, reserve)
        queue.start()
        for number in (1, 2):
            queue.put(Numbered(number, 0, change("a")))
        await until(lambda: metrics.failures > 0)
        assert len(queue) == 2
        assert not await queue.stop(patience_s=0.0)
        assert metrics.dropped == {"shelf": 2}

    asyncio.run(run())


def test_only_chosen_kinds_and_principals_are_kept(tmp_path: Path) -> None:
    async def run() -> None:
        shelf = Shelf()
        trail, _ = await opened(tmp_path, shelf, kinds="write", excluded_principals="User:mirror")
        for event in (change("a"), write_of("User:mirror"), write_of("User:alice"), write_of("User:alice")):
            trail.record(event)
        await trail.stop()
        (told,) = [each.event for each in shelf.events if each.event.kind is AuditKind.WRITE]
        assert (told.principal, told.details["bytes"], told.details["count"]) == ("User:alice", 14, 2)
        assert len(shelf.events) == 3

    asyncio.run(run())


# ------------------------------------------------------------------------------------------------- the file


def batch(*numbers: int) -> list[Numbered]:
    return [Numbered(number, 0, change(str(number))) for number in numbers]


def lines_of(path: Path) -> list[bytes]:
    return [line for each in [*rotated_files(path), path] for line in each.read_bytes().splitlines()]


def sink(path: Path, max_bytes: int = 1 << 20, kept: int = -1) -> FileSink:
    return FileSink(path, SOURCE, max_bytes, kept)


def findings(path: Path) -> list[str]:
    check = Check()
    return [finding.problem for line in lines_of(path) for finding in check.take_line(line)]


def test_file_goes_on_where_it_ended_when_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    first = sink(path)
    assert first.open() == 0
    first.append(batch(1, 2))
    first.close()
    second = sink(path)
    assert second.open() == 2
    second.append(batch(3))
    second.close()
    assert [decode(line).number for line in lines_of(path)] == [1, 2, 3]
    assert findings(path) == []
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_torn_last_line_is_cut_off_when_the_broker_was_killed_in_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    first = sink(path)
    first.open()
    first.append(batch(1, 2))
    first.close()
    path.write_bytes(path.read_bytes() + b'{"specversion":"1.0","id"')
    second = sink(path)
    assert second.open() == 2
    second.append(batch(3))
    second.close()
    assert findings(path) == []


def test_files_are_closed_at_their_size_and_old_ones_go_when_there_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    rotating = sink(path, max_bytes=1_500, kept=2)
    rotating.open()
    for number in range(1, 21):
        rotating.append(batch(number))
    rotating.close()
    closed = rotated_files(path)
    assert len(closed) == 2
    numbers = [decode(line).number for line in lines_of(path)]
    assert numbers == list(range(numbers[0], 21))
    assert numbers[0] > 1
    assert findings(path) == []


def test_number_is_found_in_the_closed_file_when_the_new_one_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    first = sink(path, max_bytes=100)
    first.open()
    first.append(batch(1))
    path.rename(f"{path}.{1:020d}")  # a broker that was killed between the two steps of it
    path.touch()
    first.close()
    second = sink(path)
    assert second.open() == 1
    second.append(batch(2))
    second.close()
    assert findings(path) == []


def test_nothing_of_a_batch_stays_when_the_disk_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    failing = sink(path)
    failing.open()
    failing.append(batch(1))
    before = path.read_bytes()
    os.close(failing._fd)
    failing._fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="space"):
        failing.append(batch(2))
    failing.close()
    assert path.read_bytes() == before


def test_batch_is_written_once_when_the_full_file_cannot_be_closed_at_first(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    full = sink(path, max_bytes=100)
    full.open()
    full.append(batch(1))
    obstacle = Path(f"{path}.{1:020d}")
    obstacle.mkdir()
    for _ in range(2):
        with pytest.raises(OSError):
            full.append(batch(2))
    obstacle.rmdir()
    full.append(batch(2))
    full.close()
    assert [decode(line).number for line in lines_of(path)] == [1, 2]
    assert findings(path) == []


# ------------------------------------------------------------------------------------------------- numbers


def test_number_is_reserved_on_the_disk_before_it_is_used(tmp_path: Path) -> None:
    numbering = Numbering(tmp_path / "sequence", Files())
    assert numbering.begin().number == 1
    kept = json.loads((tmp_path / "sequence").read_bytes())
    assert kept["clean"] is False
    assert numbering.is_reserved(kept["next"] - 1)
    assert not numbering.is_reserved(kept["next"])


@pytest.mark.parametrize("content", [b"", b"nonsense", b"{}", b'{"next": "x", "clean": true}'])
def test_numbers_go_on_after_those_of_the_file_when_the_reservation_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sequence").write_bytes(content)
    beginning = Numbering(tmp_path / "sequence", Files()).begin(at_least=8)
    assert (beginning.number, beginning.was_clean) == (8, False)
