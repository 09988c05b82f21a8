"""One consumer instance as a member of its group: the group's assignments change its positions.

The member joins and sends heartbeats in a task of its own. A read finds the start in new partitions, so nothing here
waits for a broker but commits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from penstock.admin.state.groups import CommittedOffset
from penstock.client.brokers import Brokers
from penstock.client.consumer_protocol import CONSUMER, RANGE, assign_by_range, read_assignment, write_subscription
from penstock.client.membership import Generation, GroupProtocol, Member, MemberTimes
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError
from penstock.rest.consumers.committed_offsets import NO_MEMBER, AsMember, commit
from penstock.rest.consumers.positions import Positions
from penstock.rest.consumers.settings import InstanceSettings
from penstock.rest.consumers.subscription import InstanceSubscription


class GroupMember:
    """The listener of the member."""

    def __init__(self, group: str, settings: InstanceSettings, brokers: Brokers, positions: Positions) -> None:
        self._group = group
        self._settings = settings
        self._brokers = brokers
        self._positions = positions
        self._subscription: InstanceSubscription | None = None
        self._member: Member | None = None
        self._changed = asyncio.Event()
        self.failure: Exception | None = None  # why the member has ended

    # ------------------------------------------------------------------------------------ for the instance

    def join(self, subscription: InstanceSubscription) -> None:
        """Joins, or joins again for another subscription."""
        self._subscription = subscription
        if self._member is not None and self.failure is None:
            self._member.rejoin()
            return
        self.failure = None
        self._member = Member(
            self._brokers,
            self._group,
            CONSUMER,
            self._protocols,
            assign_by_range(self._brokers),
            self,
            MemberTimes(self._settings.session_timeout_ms),
        )
        self._member.start()

    def rejoin(self) -> None:
        if self._member is not None:
            self._member.rejoin()

    async def leave(self) -> None:
        """Also for a caller that reads without the group: commits the offsets to commit."""
        member, self._member = self._member, None
        self.failure = None
        if member is not None:
            await member.close()
        else:
            await self._give_up(NO_MEMBER)

    @property
    def is_joining(self) -> bool:
        return self._member is not None and self._member.generation is None

    def as_member(self) -> AsMember:
        generation = None if self._member is None else self._member.generation
        return NO_MEMBER if generation is None else AsMember(generation.generation_id, generation.member_id)

    async def commit_given(self, member: AsMember) -> None:
        """Commits the offsets of the records given since the last time. A failure loses nothing: another member reads
        the records again, or the commit is repeated.
        """
        dirty, epoch = self._positions.take_dirty(), self._positions.epoch
        is_committed = False
        try:
            with contextlib.suppress(ApiError, OSError):
                given = {each: CommittedOffset(offset) for each, offset in dirty.items()}
                await commit(self._brokers, self._group, given, member)
                is_committed = True
        finally:
            if not is_committed and self._positions.epoch == epoch:
                self._positions.put_back(dirty)

    def take(self, partitions: Sequence[TopicPartition]) -> None:
        self._positions.assign(partitions)
        self.signal()

    def signal(self) -> None:
        """Wakes paused requests."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def pause(self, seconds: float) -> None:
        """Waits until the time is over, or the partitions change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()

    # ------------------------------------------------------------------------------------ for the member

    async def assigned(self, generation: Generation) -> None:
        self.take(read_assignment(generation.assignment))

    async def revoked(self, generation: Generation) -> None:
        await self._give_up(AsMember(generation.generation_id, generation.member_id))

    async def lost(self, generation: Generation) -> None:
        self._positions.clear()
        self.signal()

    async def failed(self, error: Exception) -> None:
        self.failure = error
        self._positions.clear()
        self.signal()

    async def _give_up(self, member: AsMember) -> None:
        if self._settings.commits_itself:
            await self.commit_given(member)
        self._positions.clear()
        self.signal()

    def _protocols(self) -> list[GroupProtocol]:
        names = () if self._subscription is None else self._subscription.names
        return [GroupProtocol(RANGE, write_subscription(names))]
