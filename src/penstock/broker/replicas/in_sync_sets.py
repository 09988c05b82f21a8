"""Keeps the in-sync sets of led partitions up to date by requests to the controller (AlterPartition).

Rules:
- A fetch that shows that a follower may join leads to a request for it. From time to time the leader looks for lagging
  members.
- Each partition has one change in flight, and the broker one request. Changes that come meanwhile share the next
  request.
- A change that the controller has made is in force at once; the image has it later. The leader gives up a refused
  change: it requests the same change again when the image has changed, or after a while, and not with each fetch of the
  follower. A change where the controller knows better waits for the next image. The leader repeats all other changes.
- An unforeseen error is logged, and the change is requested again, at longer and longer intervals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.time.backoff import Backoff, Chance
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from penstock.replication.leader_state import Refusal
from penstock.replication.progress import NO_BROKER_EPOCH

logger = logging.getLogger("penstock.broker.replicas")

AskController = Callable[[Sequence[InSyncChange]], Awaitable[Sequence[AlterPartitionResult]]]

# The pause before the repetition of an unanswered change: short, because writers with acks=all may wait for it.
_BACKOFF = Backoff(0.5, 10.0)
# The pause before the repetition of a change that the controller has refused.
_REFUSED_MS = 5_000
# The number of changes in one request: some 100 KB.
_MOST_AT_ONCE = 1_000
_FAILED = "an in-sync set could not be changed, and is tried again"
_GIVE_UP = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# The image is behind the controller, and the next image will have the answer. Nothing is sent again before that,
# retriable or not.
_WAIT_FOR_IMAGE = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class InSyncSets:
    def __init__(self, partitions: Partitions, ask_controller: AskController, chance: Chance) -> None:
        self._partitions = partitions
        self._context = partitions.context
        self._ask_controller = ask_controller
        self._chance = chance
        self._queue: dict[TopicPartition, tuple[Partition, InSyncChange]] = {}
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False
        self._failure_count = 0  # consecutive rounds of requests that ended in an error of this broker
        self._limited_log = RateLimitedLog(logger, Limiter(), self._context.clock.monotonic_ms)
        self._context.noticed = self.notice

    async def close(self) -> None:
        self._is_closed = True
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def notice(self, topic_partition: TopicPartition) -> None:
        """A follower may join."""
        partition = self._partitions.find(*topic_partition)
        if partition is not None:
            self.look_for_candidates(partition)

    def look_for_candidates(self, partition: Partition) -> None:
        """A follower that is caught up sends nothing new, so the leader looks for followers that could not join
        before.
        """
        leading = partition.leading
        if leading is not None and leading.pending_isr is None and len(leading.followers) >= len(partition.state.isr):
            self._propose(partition, [*partition.state.isr, *leading.candidates()])

    def look_for_lagging(self, partition: Partition) -> None:
        leading = partition.leading
        if leading is not None and leading.pending_isr is None and len(partition.state.isr) > 1:
            lagging = leading.lagging(self._context.clock.monotonic_ms())
            if lagging:
                self._propose(partition, [each for each in partition.state.isr if each not in lagging])

    def ask_again(self, partition: Partition) -> None:
        """After a suspension: the answer to an earlier request may have come while no broker led."""
        leading = partition.leading
        if leading is not None and leading.pending_isr is not None:
            self._propose(partition, list(leading.pending_isr))

    def _propose(self, partition: Partition, isr: list[int]) -> None:
        leading, state = partition.leading, partition.state
        if leading is None or tuple(isr) == state.isr or self._is_closed:
            return
        change = InSyncChange(
            partition.topic_id,
            state.partition,
            state.leader_epoch,
            state.partition_epoch,
            tuple((node_id, self._broker_epoch(partition, node_id)) for node_id in isr),
        )
        if self._is_refused(leading.refusal, change):
            return
        leading.propose(tuple(isr))
        logger.debug("%s: the in-sync set should be %s instead of %s", partition.topic_partition, isr, list(state.isr))
        self._queue[partition.topic_partition] = partition, change
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send(), name="in-sync changes")

    def _is_refused(self, refusal: Refusal | None, change: InSyncChange) -> bool:
        context = self._context
        return (
            refusal is not None
            and refusal.change == change
            and refusal.brokers is context.brokers
            and context.clock.monotonic_ms() < refusal.until_ms
        )

    def _broker_epoch(self, partition: Partition, node_id: int) -> int:
        """The epoch of the member's last fetch; before its first fetch the registered epoch."""
        leading = partition.leading
        progress = None if leading is None else leading.followers.get(node_id)
        if progress is not None and progress.broker_epoch != NO_BROKER_EPOCH:
            return progress.broker_epoch
        registration = self._context.brokers.get(node_id)
        return NO_BROKER_EPOCH if registration is None else registration.epoch

    async def _send(self) -> None:
        try:
            while self._queue:
                sent = [self._queue.pop(each) for each in list(self._queue)[:_MOST_AT_ONCE]]
                sent = [(partition, change) for partition, change in sent if _is_wanted(partition, change)]
                if not sent:
                    continue
                first = sent[0][0].topic_partition
                logger.info("in-sync sets should change: partitions=%d first=%s", len(sent), first)
                try:
                    results = await self._ask_controller([change for _, change in sent])
                except Exception as error:  # noqa: BLE001  # there may be no controller now; there will be one
                    logger.warning("the controller does not answer about in-sync sets: %s", str(error) or repr(error))
                    results = ()
                if self._settle(sent, results):
                    await asyncio.sleep(_BACKOFF.pause_s(self._failure_count + 1, self._chance))
        finally:
            self._sending = None

    def _settle(self, sent: list[tuple[Partition, InSyncChange]], results: Sequence[AlterPartitionResult]) -> bool:
        """Whether a change has to be requested again."""
        answers = {(result.topic_id, result.partition): result for result in results}
        is_any_left = has_failed = False
        for partition, change in sent:
            if not _is_wanted(partition, change):  # an image was faster
                continue
            try:
                is_left = self._settle_one(partition, change, answers.get((change.topic_id, change.partition)))
            except Exception as error:  # noqa: BLE001  # the others go on, and the partition must not wait for ever
                fields = {"partition": partition.topic_partition, "reason": str(error) or repr(error)}
                self._limited_log.once_per("settle", logging.ERROR, _FAILED, fields, error)
                is_left = has_failed = True
            if is_left and _is_wanted(partition, change):
                self._queue.setdefault(partition.topic_partition, (partition, change))
                is_any_left = True
        self._failure_count = self._failure_count + 1 if has_failed else 0
        return is_any_left

    def _settle_one(self, partition: Partition, change: InSyncChange, result: AlterPartitionResult | None) -> bool:
        leading, context = partition.leading, self._context
        context.metrics.failed_isr_updates += result is None or result.code is not ErrorCode.NONE
        code = ErrorCode.REQUEST_TIMED_OUT if result is None else result.code
        if result is not None and code is ErrorCode.NONE and result.state is not None:
            partition.adopt(result.state)
            if leading is not None and leading.pending_isr is not None:  # the answer has nothing new
                leading.withdraw(context.clock.monotonic_ms())
            self.look_for_candidates(partition)
        elif code in _GIVE_UP:
            if leading is not None:
                leading.refusal = Refusal(change, context.brokers, context.clock.monotonic_ms() + _REFUSED_MS)
                leading.withdraw(context.clock.monotonic_ms())
        else:
            return code not in _WAIT_FOR_IMAGE
        return False


def _is_wanted(partition: Partition, change: InSyncChange) -> bool:
    leading, state = partition.leading, partition.state
    return (
        leading is not None
        and leading.pending_isr == tuple(node_id for node_id, _ in change.isr)
        and (state.leader_epoch, state.partition_epoch) == (change.leader_epoch, change.partition_epoch)
    )
