"""Follows all partitions that another broker leads: one connection, one fetch after the other.

Rules:
- A partition is fetched at the leader epoch of the image. When the epoch changes, the fetcher follows the partition
  anew, and ignores answers for the older epoch.
- Whatever fails is tried again, soon at first, then every `replica.fetch.backoff.ms`: the partition alone where the
  answer has its error, all of them where the connection is gone. A new image wakes the loop earlier.
- Records that flush.messages wants on disk are on disk before the next fetch tells the leader so.
- The fetcher takes large answers in steps, so that other work gets its turns.
- Throttled partitions are left out while the rate is exceeded. The others do not wait for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.throttling import Throttle
from penstock.broker.replicas.fetch_requests import FetchRequests
from penstock.broker.replicas.followed_partition import Followed, FollowerFetchOutcome
from penstock.broker.replicas.throttled_fetches import ThrottledFetches
from penstock.core.clock import Clock
from penstock.core.config.sections import ReplicationSection
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.metrics.cluster_counters import ReplicaMetrics
from penstock.core.time.backoff import Backoff, Chance
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger("penstock.broker.replicas")

# The bytes to append, and the partitions to check, in one turn of the loop: about 2 ms each.
_BYTES_PER_TURN = 1 << 20
_PARTITIONS_PER_TURN = 100
# After an election a follower may know the leader some milliseconds before the leader itself does.
_FIRST_PAUSE_S = 0.02
_LATEST, _EARLIEST = -1, -2
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class LeaderLink(Protocol):
    """A connection of its own to one broker, for example a `Peer`. A failed request makes the connection useless."""

    async def request(self, message: Message, *, timeout_s: float) -> Any: ...

    async def close(self) -> None: ...


class Follower(NamedTuple):
    """This broker as leaders know it, and the state that its fetchers share."""

    node_id: int
    broker_epoch: Callable[[], int]
    clock: Clock
    flusher: Flusher
    settings: ReplicationSection
    open_link: Callable[[int], Awaitable[LeaderLink]]
    metrics: ReplicaMetrics
    chance: Chance


class LeaderFetcher:
    """Starts with the first partition that is added. End it with `close`."""

    def __init__(self, leader: int, follower: Follower, throttle: Throttle) -> None:
        """`throttle` covers everything this broker fetches, from any leader."""
        self.leader = leader
        self._follower = follower
        self._settings = follower.settings
        self._backoff = Backoff(_FIRST_PAUSE_S, follower.settings.replica_fetch_backoff_ms / 1000)
        max_bytes = follower.settings.replica_fetch_max_bytes
        self._requests = FetchRequests(ThrottledFetches(throttle, follower.node_id, max_bytes))
        self._link: LeaderLink | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._failure_count = 0  # since the last answer
        self._broker_epoch: int | None = None  # the epoch in the leader's session
        self._limited_log = RateLimitedLog(logger, Limiter(), follower.clock.monotonic_ms)

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, partition: Partition, leader_epoch: int) -> None:
        self._requests.add(Followed(partition, leader_epoch))
        self._news.set()
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"follows broker {self.leader}")

    def remove(self, partition: Partition) -> None:
        self._requests.remove((partition.topic_id, partition.topic_partition.partition))
        self._news.set()

    def look_again(self, partitions: Iterable[Partition] | None = None) -> None:
        """The throttle has changed, or these partitions have joined or left the in-sync set. None means all."""
        if partitions is None:
            partitions = [followed.partition for followed in self._requests]
        for partition in partitions:
            self._requests.look_again((partition.topic_id, partition.topic_partition.partition))
        self._news.set()

    def lags(self) -> Iterator[tuple[Partition, int]]:
        """The lag of each partition, by the last answer."""
        return ((followed.partition, followed.lag) for followed in self._requests)

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._drop_link()

    # -------------------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while not self._is_closed:
            self._news.clear()
            if not self._requests.has_something_to_ask():
                await self._wait_for_news()
            try:
                await self._fetch_once()
            except Exception as error:  # noqa: BLE001  # whatever it is, the leader may be back soon
                fields = {"leader": self.leader, "reason": str(error) or repr(error)}
                self._limited_log.once_per("fetch", logging.WARNING, "fetching from a leader failed", fields)
                await self._drop_link()
                await self._pause()

    async def _wait_for_news(self) -> None:
        """Waits until a partition is added, or the first of the failed partitions is due."""
        now_ms = self._follower.clock.monotonic_ms()
        due_ms = self._requests.next_due_ms(now_ms)
        left_ms = None if due_ms is None else max(due_ms - now_ms, 0)
        await _wait(self._news, left_ms)

    async def _pause(self) -> None:
        self._failure_count += 1
        await _wait(self._news, self._backoff_ms(self._failure_count))

    def _backoff_ms(self, failure_count: int) -> int:
        return round(1000 * self._backoff.pause_s(failure_count, self._follower.chance))

    async def _drop_link(self) -> None:
        self._requests.reset()
        link, self._link = self._link, None
        if link is not None:
            try:
                await link.close()
            except Exception as error:  # noqa: BLE001  # it is gone either way
                logger.debug("closing the connection to broker %d failed: %s", self.leader, error)

    async def _fetch_once(self) -> None:
        follower, requests, settings = self._follower, self._requests, self._settings
        if self._link is None:
            self._link = await follower.open_link(self.leader)
        broker_epoch = follower.broker_epoch()
        if broker_epoch != self._broker_epoch:  # the leader must learn the new epoch for all partitions
            self._broker_epoch = broker_epoch
            requests.reset()
        topics, forgotten = requests.build(follower.clock.monotonic_ms())
        if requests.is_empty and not forgotten:
            return
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=follower.node_id, replica_epoch=broker_epoch),
            max_wait_ms=requests.wait_ms(settings.replica_fetch_wait_max_ms),
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=requests.session_id,
            session_epoch=requests.session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        response: FetchResponse = await self._ask(self._link, request)
        self._failure_count = 0
        if response.error_code:
            requests.reset()
            if response.error_code not in _SESSION_ERRORS:
                raise ConnectionError(f"the leader answers {ErrorCode(response.error_code).name}")
            return
        requests.note_session(response.session_id)
        await self._take(response)

    async def _ask(self, link: LeaderLink, request: Message) -> Any:
        return await link.request(request, timeout_s=self._settings.replica_socket_timeout_ms / 1000)

    # -------------------------------------------------------------------------------------------- answers

    async def _take(self, response: FetchResponse) -> None:
        requests, clock = self._requests, self._follower.clock
        to_flush: list[Partition] = []
        out_of_range: list[Followed] = []
        taken_bytes = count = cut_count = 0
        for topic in response.responses:
            for data in topic.partitions:
                if taken_bytes > _BYTES_PER_TURN or count >= _PARTITIONS_PER_TURN:
                    await asyncio.sleep(0)
                    taken_bytes = count = 0
                followed = requests.find_asked((topic.topic_id, data.partition_index))
                if followed is None:
                    continue
                size = len(data.records or b"")
                taken_bytes += size
                count += 1
                answer = self._take_one(followed, data, clock.now_ms())
                if answer is FollowerFetchOutcome.TO_FLUSH:
                    to_flush.append(followed.partition)
                elif answer is FollowerFetchOutcome.OUT_OF_RANGE:
                    out_of_range.append(followed)
                if answer is FollowerFetchOutcome.CUT:
                    cut_count += 1
                    count = _PARTITIONS_PER_TURN  # a truncation is a turn's work
                self._follow_up(followed, answer, size)
        self._note_cuts(cut_count)
        if to_flush:
            for partition in await self._follower.flusher.flush(to_flush):
                requests.remove((partition.topic_id, partition.topic_partition.partition))  # its disk has failed
        if out_of_range:
            await self._find_bounds(out_of_range)

    def _take_one(self, followed: Followed, data: PartitionData, now_ms: int) -> FollowerFetchOutcome:
        try:
            return followed.take(data, now_ms)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other partitions go on
            fields = {"partition": followed.partition.topic_partition}
            self._limited_log.once_per("take", logging.ERROR, "a fetched partition cannot be taken", fields, error)
            return FollowerFetchOutcome.LATER

    def _follow_up(self, followed: Followed, answer: FollowerFetchOutcome, size: int = 0) -> None:
        if answer is FollowerFetchOutcome.LOST:
            self._requests.remove(followed.key)
        elif answer is FollowerFetchOutcome.LATER:
            followed.failure_count += 1
            due_ms = self._follower.clock.monotonic_ms() + self._backoff_ms(followed.failure_count)
            self._requests.delay(followed, due_ms)
        else:
            followed.failure_count = 0
            self._requests.note_taken(followed, size)
            if size:
                self._count(followed, size)

    def _count(self, followed: Followed, size: int) -> None:
        metrics = self._follower.metrics
        metrics.bytes_in += size
        if self._follower.node_id in followed.partition.state.adding:
            metrics.reassigned_bytes_in += size

    async def _find_bounds(self, followed: list[Followed]) -> None:
        """Asks the leader for the start and the end of its logs. Partitions that the leader does not answer are tried
        again later.
        """
        starts = await self._list_offsets(followed, _EARLIEST)
        ends = await self._list_offsets(followed, _LATEST)
        cut_count = 0
        for each in followed:
            if self._requests.find_asked(each.key) is not each:
                continue
            answer = FollowerFetchOutcome.LATER
            if each.key in starts and each.key in ends:
                answer = each.take_bounds(starts[each.key], ends[each.key], self._follower.clock.now_ms())
            self._follow_up(each, answer)
            if answer is FollowerFetchOutcome.CUT:
                cut_count += 1
                await asyncio.sleep(0)
        self._note_cuts(cut_count)

    def _note_cuts(self, count: int) -> None:
        """One log line for an election, which may concern thousands of partitions."""
        if count:
            logger.info("logs were cut to what their leader has: leader=%d partitions=%d", self.leader, count)

    async def _list_offsets(self, followed: list[Followed], timestamp: int) -> dict[tuple[bytes, int], int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        keys = {}
        for each in followed:
            name, index = each.partition.topic_partition
            keys[name, index] = each.key
            asked = ListOffsetsPartition(
                partition_index=index, current_leader_epoch=each.leader_epoch, timestamp=timestamp
            )
            topics.setdefault(name, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=self._follower.node_id,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        assert self._link is not None
        response: ListOffsetsResponse = await self._ask(self._link, request)
        return {
            keys[topic.name, answer.partition_index]: answer.offset
            for topic in response.topics
            for answer in topic.partitions
            if not answer.error_code and (topic.name, answer.partition_index) in keys
        }


async def _wait(event: asyncio.Event, timeout_ms: int | None) -> None:
    try:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return
