"""One consumer instance: a member of a group, or a reader of partitions that its caller names.

Rules:
- Requests for one instance are served one after the other. A request for records returns when its time is over, also
  while the group rebalances: the member joins in a task of its own.
- The instance fetches only during a request. Fetched records that did not fit into an answer are kept for the next
  answer, some megabytes at most.
- Positions move when records are given to the caller. A record that is unreadable in the format of the instance stays
  at its position: the caller gets the records before it first, then the error, and may seek behind it.
- Offsets are committed when the caller asks for it. With auto.commit.enable, earlier records are committed when more
  are requested, when the group rebalances and when the instance ends.
- A close leaves the group at once and ends the current request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from penstock.admin.state.groups import CommittedOffset
from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.consumers.committed_offsets import commit, fetch_committed
from penstock.rest.consumers.group_member import GroupMember
from penstock.rest.consumers.instance_reader import ConsumerReader
from penstock.rest.consumers.positions import Positions, Read
from penstock.rest.consumers.settings import InstanceSettings
from penstock.rest.consumers.subscription import REFRESH_S, InstanceSubscription, by_pattern, check_exclusive
from penstock.rest.errors import ILLEGAL_STATE, INSTANCE_NOT_FOUND, KAFKA_RETRIABLE, RestError

# The period of the looks at several partitions while there is nothing: a fetch can wait for one partition only.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.2
# A silent broker holds a request up for no longer than this, beyond its time for records.
_GRACE_S = 5.0
# The errors of a generation that the group has left behind.
_OUTDATED = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})

# Makes the value for the caller; RestError in the place of an unreadable record.
Show = Callable[[Sequence[Read]], Awaitable[Sequence[Any]]]


class _BusyError(Exception):
    """Another request for the instance is in progress."""


class Instance:
    def __init__(self, group: str, settings: InstanceSettings, brokers: Brokers) -> None:
        self.group = group
        self.settings = settings
        self._shared = brokers
        self._positions = Positions()
        self._reader = ConsumerReader(group, settings, brokers, self._positions)
        self._member = GroupMember(group, settings, brokers, self._positions)
        self._subscription: InstanceSubscription | None = None
        self._is_manual = False
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._refresh_at = 0.0

    # ------------------------------------------------------------------------------------ what is read

    async def subscribe(self, topics: Sequence[str]) -> None:
        async with self._use():
            check_exclusive(self._subscription, is_manual=self._is_manual, wants_pattern=False)
            await self._join(InstanceSubscription(tuple(dict.fromkeys(topics))))

    async def subscribe_pattern(self, text: str) -> None:
        async with self._use():
            check_exclusive(self._subscription, is_manual=self._is_manual, wants_pattern=True)
            await self._join(await by_pattern(text))

    async def _join(self, subscription: InstanceSubscription) -> None:
        await subscription.refresh(self._shared)
        self._check_open()  # a member that joined now would stay in the group: no call closes it any more
        self._refresh_at = _now() + REFRESH_S
        self._subscription = subscription
        self._member.join(subscription)

    @property
    def topics(self) -> list[str]:
        return [] if self._subscription is None else sorted(self._subscription.names)

    @property
    def partitions(self) -> list[TopicPartition]:
        return self._positions.partitions

    async def unsubscribe(self) -> None:
        async with self._use():
            await self._member.leave()
            self._subscription, self._is_manual = None, False

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Raises RestError for partitions that do not exist."""
        async with self._use():
            if self._subscription is not None:
                raise RestError(ILLEGAL_STATE, "the instance is subscribed to topics: delete the subscription first")
            for topic in {each.topic for each in partitions}:
                count = await self._shared.partitions(topic)
                if any(each.partition >= count for each in partitions if each.topic == topic):
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._check_open()
            self._member.take(partitions)
            self._is_manual = bool(partitions)

    # ------------------------------------------------------------------------------------ records

    async def records(self, timeout_ms: int, max_bytes: int, show: Show) -> list[Any]:
        """At least one record where there are any, and as many as fit. Raises RestError."""
        deadline = _now() + timeout_ms / 1000
        try:
            async with self._use(deadline), asyncio.timeout_at(deadline + _GRACE_S):
                return await self._records(deadline, max_bytes, show)
        except _BusyError:
            return []  # another request for records took all the time

    async def _records(self, deadline: float, max_bytes: int, show: Show) -> list[Any]:
        if self._subscription is None and not self._is_manual:
            raise RestError(ILLEGAL_STATE, "the instance is subscribed to nothing, and no partitions are assigned")
        await self._before_reading()
        pause_s = _FIRST_PAUSE_S
        while True:
            self._check()
            epoch = self._positions.epoch
            await self._reader.fill(max_bytes, deadline)
            kept = self._positions.kept_bytes
            is_over = _now() >= deadline or kept >= min(max_bytes, self.settings.min_bytes)
            found = self._positions.peek(max_bytes) if is_over else []
            if found:
                shown = await show(found)
                if self._positions.epoch == epoch:
                    return self._given(found, shown)
                continue  # the group has changed the assignment meanwhile
            if is_over and _now() >= deadline:
                return []
            await self._member.pause(min(pause_s, deadline - _now()))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _given(self, found: Sequence[Read], shown: Sequence[Any]) -> list[Any]:
        count = next((index for index, each in enumerate(shown) if isinstance(each, RestError)), len(shown))
        if count == 0:
            partition, record = found[0]
            error: RestError = shown[0]
            raise RestError(
                error.code, f"{partition.topic}-{partition.partition}, offset {record.offset}: {error.message}"
            )
        self._positions.advance(found[:count])
        return list(shown[:count])

    async def _before_reading(self) -> None:
        if self.settings.commits_itself:
            await self._member.commit_given(self._member.as_member())
        if self._subscription is not None and _now() >= self._refresh_at:
            self._refresh_at = _now() + REFRESH_S
            with contextlib.suppress(ApiError, OSError):
                if await self._subscription.refresh(self._shared):
                    self._member.rejoin()

    # ------------------------------------------------------------------------------------ offsets

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None) -> None:
        """None: all records given so far. Raises RestError and ApiError."""
        async with self._use():
            if offsets is None:
                offsets = {each: CommittedOffset(offset) for each, offset in self._positions.all().items()}
            try:
                await commit(self._shared, self.group, offsets, self._member.as_member())
            except ApiError as error:
                if error.code not in _OUTDATED:
                    raise
                self._member.rejoin()
                raise RestError(KAFKA_RETRIABLE, "the group rebalances: what was read is read again") from None

    async def committed(self, partitions: Sequence[TopicPartition] | None) -> dict[TopicPartition, CommittedOffset]:
        async with self._use():
            return await fetch_committed(
                self._shared, self.group, self.partitions if partitions is None else partitions
            )

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        async with self._use():
            await self._check_assigned(offsets)
            for partition, offset in offsets.items():
                self._positions.seek(partition, offset)

    async def seek_to(self, partitions: Sequence[TopicPartition], place: int) -> None:
        """EARLIEST or LATEST."""
        async with self._use():
            await self._check_assigned(partitions)
            for partition in partitions:
                self._positions.seek(partition, None)
            await self._reader.seek_to(partitions, place)

    async def _check_assigned(self, partitions: Sequence[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Waits for the group as long as a request for records would. Raises RestError 40903."""
        deadline = _now() + self.settings.request_timeout_ms / 1000
        while True:
            self._check()
            missing = next((each for each in partitions if each not in self._positions), None)
            if missing is None:
                return
            if not self._member.is_joining or _now() >= deadline:
                raise RestError(ILLEGAL_STATE, f"{missing} is not assigned to the instance")
            await self._member.pause(deadline - _now())

    # ------------------------------------------------------------------------------------ the end

    async def close(self) -> None:
        """Does not raise. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._member.signal()
        await self._member.leave()
        await self._reader.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RestError(INSTANCE_NOT_FOUND, "the consumer instance was deleted")

    def _check(self) -> None:
        self._check_open()
        if self._member.failure is not None:
            raise self._member.failure

    @contextlib.asynccontextmanager
    async def _use(self, deadline: float | None = None) -> Any:
        """One request after the other; _BusyError where its turn would come too late."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._turn.acquire()
        except TimeoutError:
            raise _BusyError from None
        try:
            self._check_open()
            yield
        except OSError:
            self._check_open()
            raise
        finally:
            self._turn.release()


def _now() -> float:
    return asyncio.get_running_loop().time()
