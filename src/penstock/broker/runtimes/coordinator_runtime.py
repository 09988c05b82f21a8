"""Runs a coordinator: appends its records, replays them, then releases its replies; sets its timers; loads it from the
log. The coordinators of groups and of transactions share all of it (ADR 12) and override `_batch` and `_follow`.

The coordinator decides and the runtime acts. Operation, append and replay happen in one turn of the event loop, so no
other operation sees a state between them. Later operations and reads do see the replayed state before the disk has its
records. So everything that follows from state, a reply, the answer to a question or a marker, waits while the log owes
an fsync (flush.messages) or its high watermark is behind its end, whoever appended, and while another broker may lead
as far as the store can tell (`broker.partitions.confirmations`). If that fsync fails, or another broker leads first, no
answer shows the state: the runtime unloads the shard, and clients look for the coordinator again. If replicas are too
slow, or too few, clients try again, and the state stays: the records are in the log, and may still be replicated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any, Generic, TypeVar

from penstock.broker.partitions.partition import Partition
from penstock.broker.runtimes.coordinator_loading import CoordinatorLoading, Loaded
from penstock.broker.runtimes.coordinator_log import CoordinatorLog, Owed, split_records
from penstock.broker.runtimes.coordinator_timers import CoordinatorTimers
from penstock.broker.runtimes.tickets import Ticket
from penstock.broker.slices import Slices, Work, pieces
from penstock.coordinators.operations import Operation, Prepared
from penstock.coordinators.outcome import Outcome, Reply, Result, TimerKey
from penstock.coordinators.routing import Shard, Shards
from penstock.core.clock import Clock
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.types import NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import EncodedRecords, Record, build_batch, build_encoded_batch

logger = logging.getLogger("penstock.broker.coordinators")

# Ten lines of a kind in ten seconds show an operator which clients are in trouble; a thousand would show no more.
_NOTICE_INTERVAL_MS = 10_000
_NOTICE_BURST = 10

# The number of preparations of a large request while other requests change the state that it reads. After that one long
# turn decides the request, so that it comes to an end.
_PREPARATIONS = 5

# Each reply answers a request in the next turn of the loop, which takes some 50 us. A generation of a classic group
# answers all its members.
_REPLIES_PER_TURN = 50

# Long ids take long to hash: for more ids than these, all partitions are checked.
_FEW_KEYS = 4

_NO_EPOCH = -1

# Errors of a log that did not take records: logged as info, not as errors. The client gets the code and tries again.
_PASSING = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS})

# The pause between two looks at a partition with too few replicas or an unsure leadership.
_RETRY_SECONDS = 0.1

KeyType = TypeVar("KeyType", bound=TimerKey)
OutcomeType = TypeVar("OutcomeType", bound=Outcome[Any])
ShardType = TypeVar("ShardType", bound=Shard[Any, Any])
SettingsType = TypeVar("SettingsType")
RequestType = TypeVar("RequestType")
ResultType = TypeVar("ResultType", bound=Result)
AnswerType = TypeVar("AnswerType")


def _partitions_of(shards: Shards[Any, Any, Any, Any], keys: Collection[str] | None) -> Collection[int]:
    if keys is None or len(keys) > _FEW_KEYS:
        return range(shards.partition_count)
    return {shards.partition_for(key) for key in keys}


async def _release_some_at_a_time(replies: Sequence[Reply]) -> None:
    for piece in pieces(replies, _REPLIES_PER_TURN):
        for reply in piece:
            reply.release()
        await asyncio.sleep(0)


async def wait_for(work: Awaitable[None]) -> None:
    await work


def _abandon(timers: list[asyncio.TimerHandle], outcomes: Iterator[Outcome[Any]]) -> Work[None]:
    for timer in timers:
        timer.cancel()
        yield
    for outcome in outcomes:
        for reply in outcome.replies:
            reply.release()
        yield


class CoordinatorRuntime(Generic[ShardType, OutcomeType, KeyType, SettingsType]):
    def __init__(
        self,
        shards: Shards[ShardType, OutcomeType, KeyType, SettingsType],
        log: CoordinatorLog,
        clock: Clock,
        slices: Slices,
        reply_timeout_ms: int,
    ) -> None:
        """`reply_timeout_ms` limits the time that a reply waits for replicas."""
        self.shards = shards
        self._reply_timeout_ms = reply_timeout_ms
        self._log = log
        self._clock = clock
        self._slices = slices
        self._unload_count = 0
        self._epochs: dict[int, int] = {}  # by partition: the newest leader epoch of an image, led here or not
        self._timers = CoordinatorTimers(self._on_timer)
        self._loading = CoordinatorLoading(log, shards, clock, slices)
        shards.is_led = log.is_led
        self._notices = RateLimitedLog(logger, Limiter(_NOTICE_INTERVAL_MS, _NOTICE_BURST), clock.monotonic_ms)
        self._tasks: set[asyncio.Task[None]] = set()

    # -------------------------------------------------------------------------------------------- requests

    def start(
        self, operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType], request: RequestType
    ) -> Ticket[ResultType]:
        """Performs one operation; mostly its reply exists when this returns."""
        ticket: Ticket[ResultType] = Ticket()
        self._perform(self.shards.perform(operation, ticket, request, self._clock.now_ms()))
        return ticket

    async def submit(
        self, operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType], request: RequestType
    ) -> ResultType:
        """The reply, at once or when the coordinator releases it."""
        ticket = self.start(operation, request)
        return await ticket.wait() if ticket.result is None else ticket.result

    async def submit_in_slices(
        self,
        operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType],
        request: RequestType,
        refuse: Callable[[], Awaitable[ResultType | None]] | None = None,
    ) -> ResultType:
        """The same for a request about many elements: prepared in slices, decided in one turn.

        `refuse` runs in the turn of each decision. Its answer, if it has one, is the reply.
        """
        for _ in range(_PREPARATIONS):
            prepared = await self._slices.run(self.shards.prepare(operation, request, self._clock.now_ms()))
            refusal = None if refuse is None else await refuse()
            if refusal is not None:
                return refusal
            ticket = self._start_prepared(operation, request, prepared)
            if ticket is not None:
                return await ticket.wait()
        return await self.submit(operation, request)

    def _start_prepared(
        self,
        operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType],
        request: RequestType,
        prepared: Prepared[ShardType, OutcomeType, ResultType] | None,
    ) -> Ticket[ResultType] | None:
        """None if nothing has happened, because `prepared` is outdated."""
        if prepared is None:
            return self.start(operation, request)
        ticket: Ticket[ResultType] = Ticket()
        outcome = self.shards.perform_prepared(operation, ticket, request, prepared, self._clock.now_ms())
        if outcome is None:
            return None
        self._perform(outcome)
        return ticket

    def is_durable(self, keys: Collection[str] | None) -> bool:
        """Whether an answer may show the present state of these ids (None: of all)."""
        return not self._owing(keys)

    async def read(self, keys: Collection[str] | None, look: Callable[[], AnswerType]) -> AnswerType:
        """The result of `look` for these ids (None: for all), once an answer may show it. If the disk fails, or another
        broker leads meanwhile, `look` runs again, and finds that the ids are not here.
        """
        while True:
            refused, unload_count = self._refused(keys), self._unload_count
            answer = look()
            owing = self._owing(keys, refused)
            if not owing or (await self._settle(owing) and self._unload_count == unload_count):
                return answer

    async def read_in_slices(self, keys: Collection[str] | None, look: Callable[[], Work[AnswerType]]) -> AnswerType:
        """The same for a read of many elements, which takes many turns of the loop. It returns once an answer may show
        the results of each turn; if one of them may not be shown, it reads everything again.
        """
        while True:
            refused, unload_count = self._refused(keys), self._unload_count
            answer = await self._slices.run(look())
            owing = self._owing(keys, refused)
            if (not owing or await self._settle(owing)) and self._unload_count == unload_count:
                return answer

    async def _settle(self, owing: list[Partition]) -> bool:
        """Waits until answers may show the content of these partitions; False: they may not. There is no limit of time:
        a client with enough of the wait goes away.
        """
        errors = await self._log.settle(self._log.ask(owing), self._reply_timeout_ms)
        for partition, code in errors.items():
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._unload(partition)
        if any(code is not ErrorCode.KAFKA_STORAGE_ERROR for code in errors.values()):
            await asyncio.sleep(_RETRY_SECONDS)
        return not errors

    def _owing(self, keys: Collection[str] | None, refused: Collection[int] = ()) -> list[Partition]:
        # No answer shows a partition that is not active, whatever its log owes, nor a partition that has lost its
        # permission since the look (`refused`), because this process was paused. Results from before that have to wait.
        return self._log.owing(
            partition
            for partition in _partitions_of(self.shards, keys)
            if self.shards.is_active(partition)
            and not (partition in refused and self.shards.refusal(partition) is not None)
        )

    def _refused(self, keys: Collection[str] | None) -> set[int]:
        return {
            partition for partition in _partitions_of(self.shards, keys) if self.shards.refusal(partition) is not None
        }

    # -------------------------------------------------------------------------------------------- outcomes

    def _perform(self, outcome: OutcomeType) -> None:
        if outcome.records or outcome.prepared is not None:
            try:
                self._append(outcome)
            except ApiError as error:
                self._note_failed_append(outcome, error)
                self._timers.apply(outcome.timers)
                self._perform(self.shards.on_append_failed(outcome, error.code, self._clock.now_ms()))
                return
            except BaseException:  # a bug; otherwise the coordinator would wait for these records for ever
                code = ErrorCode.UNKNOWN_SERVER_ERROR
                self._perform(self.shards.on_append_failed(outcome, code, self._clock.now_ms()))
                raise
        self._timers.apply(outcome.timers)
        for notice in outcome.notices:
            self._notices.once_per(notice.message, notice.level, notice.message, notice.fields)
        if not outcome.has_consequences:
            return
        owing = self._log.find_owing(outcome.partition)
        # A refusal does not wait, whatever the log owes. The outcome itself shows the refusal: a check of the partition
        # now would let go a decision from just before a pause of the process.
        if owing is not None and outcome.tells_state:
            owed, shard = self._log.ask([owing]), self.shards.hosted(outcome.partition)
            self._begin(self._follow_when_durable(outcome, owed, shard))
        else:
            self._follow(outcome)

    def _append(self, outcome: OutcomeType) -> None:
        """Appends and replays. After an error `outcome.records` are the records that are not in the log: all of them,
        or the remaining ones of a clean-up in several batches.
        """
        if outcome.prepared is not None:
            batch, producer_id = self._batch(outcome, outcome.prepared.records)
            base_offset = self._log.append(outcome.partition, batch)
            self.shards.replay_prepared(outcome.partition, outcome.prepared, base_offset, producer_id)
            return
        written = 0
        try:
            for records in split_records(outcome.records, outcome.is_atomic):
                now_ms = self._clock.now_ms()
                content = [Record(key, value, timestamp=now_ms) for key, value in records]
                batch, producer_id = self._batch(outcome, content)
                base_offset = self._log.append(outcome.partition, batch)
                for index, (key, value) in enumerate(records):
                    self.shards.replay(outcome.partition, key, value, base_offset + index, producer_id)
                written += len(records)
        finally:
            outcome.records = outcome.records[written:]

    def _note_failed_append(self, outcome: OutcomeType, error: ApiError) -> None:
        fields = {"topic": self._log.topic, "partition": outcome.partition, "records": outcome.record_count}
        fields["reason"] = error.message or error.code.name
        # After an election, or while replicas are away, clients ask again, and are sent to the new leader.
        level = logging.INFO if error.code in _PASSING else logging.ERROR
        self._notices.once_per(f"append {level}", level, "a coordinator's records cannot be written", fields)

    async def _follow_when_durable(self, outcome: OutcomeType, owed: Owed, shard: ShardType) -> None:
        while True:
            code = (await self._log.settle(owed, self._reply_timeout_ms)).get(outcome.partition, ErrorCode.NONE)
            is_ours = self.shards.find(outcome.partition) is shard
            if not is_ours:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if not code:
                self._follow(outcome)
                return
            for reply in outcome.failed_replies(code):
                reply.release()
            outcome.replies = []
            if is_ours and code is ErrorCode.KAFKA_STORAGE_ERROR:
                # The replayed records may be lost, so no answer shows them, neither now nor later. The next start finds
                # out.
                self._unload(outcome.partition)
                return
            if not is_ours or not outcome.has_consequences:
                return
            # The decision may still be replicated, and its markers must follow then.
            await asyncio.sleep(_RETRY_SECONDS)
            owed = self._log.ask(owed.partitions)

    def _on_timer(self, key: KeyType) -> None:
        self._perform(self.shards.on_timer(key, self._clock.now_ms()))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -------------------------------------------------------------------------------------------- leadership

    def lead(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition: clients get an error and try again until it is loaded. Old news are ignored.

        A partition that this broker led before, at an older epoch, is loaded from scratch. Between the two images that
        this broker has seen another broker may have led the partition and truncated the log, so memory may be ahead of
        the log. Mostly there was one; where there was none, the load is no more than a pause.
        """
        found = self._log.find(partition)
        if found is None or not found.is_leader or leader_epoch <= self._epochs.get(partition, _NO_EPOCH):
            return
        self._epochs[partition] = leader_epoch
        self._unload(partition)
        self.shards.begin_loading(partition, leader_epoch)
        if found.log.log_end_offset == found.log.log_start_offset:
            self._finish_loading(partition, Loaded.ALL)
        elif self._loading.add(found, self.shards.hosted(partition)):
            self._begin(self._loading.run(self._finish_loading))

    def resign(self, partition: int, leader_epoch: int | None) -> None:
        """Another broker leads the partition at this epoch, or none does: its state is dropped. Old news are ignored.

        None: another broker may lead the partition, and the image does not show that yet. The state is dropped as well,
        because a repeated batch that finds an old marker is written twice. `lead` may come with the same epoch again.
        """
        if leader_epoch is None:
            self._epochs.pop(partition, None)
            self._unload(partition)
        elif leader_epoch > self._epochs.get(partition, _NO_EPOCH):
            self._epochs[partition] = leader_epoch
            self._unload(partition)

    def unload(self) -> None:
        """The topic is deleted. A later topic of its name begins with new epochs."""
        self._epochs.clear()
        for partition in self.shards.hosted_partitions():
            self._unload(partition)

    def _finish_loading(self, partition: int, loaded: Loaded) -> None:
        if loaded is Loaded.ALL:
            self._perform(self.shards.finish_loading(partition, self._clock.now_ms()))
        elif loaded is Loaded.FAILED:
            # Its groups or transactions stay unavailable: to continue without their state would lose offsets, or tear
            # transactions.
            self._unload(partition)

    def _unload(self, partition: int) -> None:
        """The partition is gone at once. Many parked requests are answered in slices."""
        if self.shards.find(partition) is None:
            return
        self._unload_count += 1
        self._log.wake(partition)
        forgotten = self._timers.forget(partition)
        abandoning = self._slices.begin(
            _abandon(forgotten, self.shards.unload_in_steps(partition, self._clock.now_ms()))
        )
        if abandoning is not None:
            self._begin(wait_for(abandoning))

    async def close(self) -> None:
        self._timers.cancel_all()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -------------------------------------------------------------------------------------------- what differs

    def _batch(self, _outcome: OutcomeType, records: Sequence[Record] | EncodedRecords) -> tuple[bytes, int]:
        """(the batch, the producer whose transaction it belongs to)"""
        if isinstance(records, EncodedRecords):
            return build_encoded_batch(records), NO_PRODUCER_ID
        return build_batch(records), NO_PRODUCER_ID

    def _follow(self, outcome: OutcomeType) -> None:
        """Called when a decision is durable."""
        if len(outcome.replies) > _REPLIES_PER_TURN:
            self._begin(_release_some_at_a_time(outcome.replies))
            return
        for reply in outcome.replies:
            reply.release()
