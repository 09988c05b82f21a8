"""The right to write: taken before anything is decided, lost at once, never used for what was decided before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import pytest

from penstock.client.batch_producer import NewRecord
from penstock.client.transactional_writer import FencedError
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.registry.errors import NotLeaderError, StoreError, StoreTimeoutError
from penstock.registry.log import LogRecord
from penstock.registry.node.changes import Changes
from penstock.registry.node.leader_writer import LeaderCallbacks, LeaderWriter

WRITTEN = LogRecord(b"noop", b"ids that are gone")
NOOP = NewRecord(WRITTEN.key, WRITTEN.value)
RECORD = LogRecord(b"key", b"value")


class Topic:
    """What is written, what of it was read, and what goes wrong next: a writer and a reader in one."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.begun = 0
        self.has_begun = False
        self.position = 0
        self.failures: list[Exception] = []  # of the next writes
        self.begin_failures: list[Exception] = []
        self.is_read = True

    async def begin(self) -> None:
        await asyncio.sleep(0)
        if self.begin_failures:
            raise self.begin_failures.pop(0)
        self.begun += 1
        self.has_begun = True

    async def write(self, records: Sequence[NewRecord]) -> int:
        assert self.has_begun
        await asyncio.sleep(0)
        if self.failures:
            failure = self.failures.pop(0)
            self.has_begun = isinstance(failure, ApiError)
            raise failure
        self.records += records
        return len(self.records)

    async def end(self) -> int:
        return len(self.records)

    async def wait_for(self, position: int) -> None:
        if not self.is_read:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self.position = position


class Fixture:
    def __init__(self, on_taken: Callable[[], Coroutine[None, None, None]] | None = None) -> None:
        self.topic = Topic()
        self.changes = Changes()
        self.fenced = 0
        self.taken = 0
        self.failures: list[Exception] = []
        self.known_at_noop: list[int] = []

        async def take() -> None:
            self.taken += 1
            if on_taken is not None:
                await on_taken()

        self.leader_writer = LeaderWriter(
            self.topic,
            self.topic,
            LeaderCallbacks(self._noop, take, self._count, self.failures.append),
            timeout_s=0.05,
            changes=self.changes,
        )

    def _noop(self) -> LogRecord:
        self.known_at_noop.append(self.topic.position)
        return WRITTEN

    def _count(self) -> None:
        self.fenced += 1

    async def lead(self) -> None:
        self.leader_writer.enter()
        await self.changes.wait_until(lambda: self.leader_writer.is_held)


def run(scenario: Callable[[Fixture], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        await scenario(Fixture())

    asyncio.run(main())


def test_nothing_is_written_before_this_instance_was_elected() -> None:
    async def scenario(given: Fixture) -> None:
        with pytest.raises(NotLeaderError):
            await given.leader_writer.write([RECORD])
        assert not given.topic.records

    run(scenario)


def test_a_new_leader_fences_writes_noop_and_reads_up_to_it_before_it_serves() -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        assert (given.topic.begun, given.topic.records, given.topic.position) == (1, [NOOP], 1)
        await given.leader_writer.write([RECORD])
        assert given.topic.records[1:] == [NewRecord(b"key", b"value")]
        assert given.topic.position == 2

    run(scenario)


@pytest.mark.parametrize("failure", [OSError("gone"), TimeoutError(), ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)])
def test_a_noop_that_fails_is_tried_again_and_nobody_leads_meanwhile(failure: Exception) -> None:
    async def scenario(given: Fixture) -> None:
        given.topic.failures.append(failure)
        given.topic.begin_failures.append(OSError("no broker"))
        given.leader_writer.enter()
        await asyncio.sleep(0)
        assert not given.leader_writer.is_held
        with pytest.raises(NotLeaderError):
            await given.leader_writer.write([RECORD])
        await given.lead()
        assert given.topic.records == [NOOP]

    run(scenario)


@pytest.mark.parametrize(
    ("failure", "error"), [(FencedError(), NotLeaderError), (FencedError(is_unknown=True), StoreError)]
)
def test_a_leader_that_is_fenced_stops_at_once_and_asks_to_join_again(
    failure: FencedError, error: type[Exception]
) -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.topic.failures.append(failure)
        with pytest.raises(error):
            await given.leader_writer.write([RECORD])
        assert (given.leader_writer.is_held, given.fenced) == (False, 1)
        with pytest.raises(NotLeaderError):
            await given.leader_writer.write([RECORD])
        assert given.topic.records == [NOOP]

    run(scenario)


@pytest.mark.parametrize(("failure", "error"), [(OSError("gone"), StoreError), (TimeoutError(), StoreTimeoutError)])
def test_a_write_of_unknown_outcome_ends_the_term_and_the_next_one_begins_with_a_noop(
    failure: Exception, error: type[Exception]
) -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.topic.failures.append(failure)
        with pytest.raises(error):
            await given.leader_writer.write([RECORD])
        with pytest.raises(NotLeaderError):  # decided on what may not be all there is
            await given.leader_writer.write([RECORD])
        await given.changes.wait_until(lambda: given.leader_writer.is_held)
        assert (given.topic.begun, given.leader_writer.terms, given.topic.records) == (2, 2, [NOOP, NOOP])

    run(scenario)


def test_records_that_the_broker_refuses_leave_the_leader_in_office() -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.topic.failures.append(ApiError(ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(StoreError):
            await given.leader_writer.write([RECORD])
        assert given.leader_writer.is_held
        await given.leader_writer.write([RECORD])

    run(scenario)


def test_records_that_are_not_read_back_in_time_end_the_term() -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.topic.is_read = False
        with pytest.raises(StoreTimeoutError):
            await given.leader_writer.write([RECORD])
        assert not given.leader_writer.is_held
        given.leader_writer.leave()

    run(scenario)


def test_a_leader_that_lost_its_place_does_not_write_until_it_was_elected_again() -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.leader_writer.leave()
        with pytest.raises(NotLeaderError):
            await given.leader_writer.write([RECORD])
        await given.lead()
        assert given.topic.begun == 2

    run(scenario)


def test_an_election_that_confirms_the_leader_changes_nothing() -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.leader_writer.enter()
        await given.leader_writer.write([RECORD])
        assert (given.topic.begun, given.taken) == (1, 1)

    run(scenario)


def test_noop_is_made_of_all_that_is_in_the_topic_because_it_takes_the_place_of_the_one_before() -> None:
    async def scenario(given: Fixture) -> None:
        given.topic.records += [NewRecord(b"of", b"another"), NewRecord(b"noop", b"of another")]
        await given.lead()
        assert given.known_at_noop == [2]

    run(scenario)


def test_a_failure_that_nobody_expects_is_told_and_does_not_leave_an_office_that_is_never_taken() -> None:
    async def main() -> None:
        failures: list[Exception] = [ValueError("a bug")]

        async def repair() -> None:
            if failures:
                raise failures.pop()

        given = Fixture(repair)
        given.leader_writer.enter()
        await given.changes.wait_until(lambda: bool(given.failures))
        assert [type(each) for each in given.failures] == [ValueError]
        with pytest.raises(NotLeaderError):
            await given.leader_writer.write([RECORD])
        await given.lead()

    asyncio.run(main())


def test_repairs_are_written_before_others_may_write() -> None:
    async def main() -> None:
        written: list[bool] = []

        async def repair() -> None:
            written.append(given.leader_writer.is_held)
            await given.leader_writer.write([RECORD])

        given = Fixture(repair)
        await given.lead()
        assert written == [False]
        assert len(given.topic.records) == 2

    asyncio.run(main())


def test_a_caller_that_goes_away_leaves_no_half_of_a_write() -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        writing = asyncio.create_task(given.leader_writer.write([RECORD]))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await given.changes.wait_until(lambda: given.leader_writer.is_held)
        keys = [record.key for record in given.topic.records]
        assert keys == [NOOP.key, b"key", NOOP.key]

    run(scenario)


@pytest.mark.parametrize("failure", [OSError("gone"), TimeoutError(), FencedError(is_unknown=True)])
def test_an_instance_that_left_does_not_take_office_when_its_last_write_fails(failure: Exception) -> None:
    async def scenario(given: Fixture) -> None:
        await given.lead()
        given.topic.failures.append(failure)
        writing = asyncio.create_task(given.leader_writer.write([RECORD]))
        await asyncio.sleep(0)
        given.leader_writer.leave()
        assert isinstance((await asyncio.gather(writing, return_exceptions=True))[0], StoreError | StoreTimeoutError)
        await _let_others_run()
        assert (given.topic.begun, given.leader_writer.is_held) == (1, False)

    run(scenario)


def test_an_instance_that_left_while_it_wrote_repairs_does_not_take_office() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def repair() -> None:
            begun.set()
            await given.leader_writer.write([RECORD])

        given = Fixture(repair)
        given.leader_writer.enter()
        await begun.wait()
        given.leader_writer.leave()
        await _let_others_run()
        assert (given.topic.begun, given.leader_writer.is_held) == (1, False)

    asyncio.run(main())


async def _let_others_run() -> None:
    """More turns than to take office takes."""
    for _ in range(50):
        await asyncio.sleep(0)
