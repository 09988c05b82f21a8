"""Reports replicas of this broker with a failed disk to the controller, so that others lead and no writer waits for
them.

A log goes offline in the middle of an append, a read or a flush, and in threads. No event announces that: this module
checks the partitions in rounds. A reported replica that the controller has not changed is reported again in the next
round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

from penstock.broker.partitions.partitions import Partitions
from penstock.cluster.image import PartitionState
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.types import TopicId
from penstock.replication.changes import LostReplica

logger = logging.getLogger("penstock.broker.replicas")

ReportLost = Callable[[Sequence[LostReplica]], Awaitable[None]]

# The pause between two rounds: writers with acks=all wait for a follower with a lost disk for no longer than this.
ROUND_MS = 250
# The number of replicas in one report: some 20 KB.
_MOST_AT_ONCE = 1_000


class LostReplicas:
    def __init__(self, node_id: int, partitions: Partitions, report: ReportLost) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._report = report
        # While the controller cannot be reached, a round comes four times a second.
        self._limited_log = RateLimitedLog(logger, Limiter(), partitions.context.clock.monotonic_ms)
        self._reporting: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    def look(self) -> Iterator[None]:
        lost: list[LostReplica] = []
        for partition in self._partitions:
            if not partition.is_online and self._counts(partition.state):
                lost.append(LostReplica(partition.topic_id, partition.state.partition))
            yield
        lost += [LostReplica(topic_id, state.partition) for topic_id, state in self._without_log()]
        if lost and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.get_running_loop().create_task(self._tell(lost), name="lost replicas")

    def _without_log(self) -> Iterator[tuple[TopicId, PartitionState]]:
        image = self._partitions.image
        for name, index in sorted(self._partitions.without_log):
            topic = None if image is None else image.topics.get(name)
            state = None if topic is None else topic.partition(index)
            if topic is not None and state is not None and self._counts(state):
                yield topic.topic_id, state

    def _counts(self, state: PartitionState) -> bool:
        """Whether anything depends on this replica. A partition without other replicas keeps its leader, whose errors
        explain the failure.
        """
        is_last = state.isr == (self._node_id,)
        is_needed = state.leader == self._node_id or (self._node_id in state.isr and not is_last)
        return len(state.replicas) > 1 and is_needed

    async def _tell(self, lost: list[LostReplica]) -> None:
        fields = {"replicas": len(lost)}
        self._limited_log.once_per(
            "telling", logging.WARNING, "telling the controller of replicas whose disk has failed", fields
        )
        try:
            for start in range(0, len(lost), _MOST_AT_ONCE):
                await self._report(lost[start : start + _MOST_AT_ONCE])
        except Exception as error:  # noqa: BLE001  # the next round tries again
            reason = {"reason": str(error) or repr(error)}
            self._limited_log.once_per(
                "failure", logging.WARNING, "the controller could not be told of lost replicas", reason
            )
