"""A member of a classic group, in a task of its own: joins, syncs, sends heartbeats, joins again when the group
rebalances, leaves.

The member does not look into metadata and assignments. `consumer_protocol` has what members of type `consumer` put
there, with a range assignor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.client.brokers import Brokers
from penstock.client.group_membership.group_requests import (
    Assign,
    Generation,
    GroupProtocol,
    JoinedMember,
    Joining,
    MemberTimes,
)
from penstock.protocol.errors import ErrorCode

__all__ = ["Assign", "Generation", "GroupProtocol", "JoinedMember", "Listener", "Member", "MemberTimes"]


_BEATS_IN_SESSION = 3


class Listener(Protocol):
    """Called from the member's task, one at a time. While `assigned` or `revoked` runs, heartbeats go on; the member
    joins again when `revoked` has returned, and is thrown out if that takes longer than the rebalance timeout."""

    async def assigned(self, generation: Generation) -> None:
        """A new generation has begun."""

    async def revoked(self, generation: Generation) -> None:
        """The generation ends in order: its offsets may still be committed, until this returns."""

    async def lost(self, generation: Generation) -> None:
        """The group has gone on without the member: what it was given may be another's already."""

    async def failed(self, error: Exception) -> None:
        """The member has ended for a reason that trying again does not mend (no right on the group, protocols that do
        not fit those of the group). Nothing is called after this."""


class Member:
    def __init__(
        self,
        brokers: Brokers,
        group: str,
        protocol_type: str,
        protocols: Callable[[], Sequence[GroupProtocol]],
        assign: Assign,
        listener: Listener,
        times: MemberTimes = MemberTimes(),  # noqa: B008  # immutable
    ) -> None:
        """`protocols` is asked at each join: a subscription may change, followed by `rejoin`. The member takes
        connections of its own from `brokers`."""
        self._shared = brokers
        self._brokers = brokers.dedicated()
        self._listener = listener
        self._times = times
        self._joining = Joining(self._brokers, group, protocol_type, protocols, assign, times)
        self._generation: Generation | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()  # of the generation
        self._is_lost = False
        self._is_closed = False

    @property
    def generation(self) -> Generation | None:
        """The one that the member is in; None while it joins, and after it has left."""
        return self._generation

    def start(self) -> None:
        """Begins to join, and goes on until `close`."""
        assert self._task is None, "a member is started once"
        self._task = asyncio.create_task(self._run(), name="group member")

    def rejoin(self) -> None:
        """Ends the generation and joins anew: for a changed subscription, or when a commit was answered with
        REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID."""
        self._ending.set()

    async def close(self) -> None:
        """Revokes, leaves the group and ends the task. Does not raise: a coordinator that is away throws the member out
        by itself. Not to be called by the listener."""
        self._is_closed = True
        self._ending.set()
        if self._task is not None:
            if self._generation is None:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._joining.leave(self._shared)
        await self._brokers.close()

    # ------------------------------------------------------------------------------------ the task

    async def _run(self) -> None:
        try:
            while not self._is_closed:
                self._ending.clear()
                self._is_lost = False
                generation = await self._joining.join()
                self._generation = generation
                await self._live(generation)
        except Exception as error:  # noqa: BLE001  # the listener is told, whatever it is: nobody awaits this task
            if self._generation is not None:
                generation, self._generation = self._generation, None
                await self._listener.lost(generation)
            await self._brokers.close()  # whoever tries again does so with a new member
            await self._listener.failed(error)

    async def _live(self, generation: Generation) -> None:
        """From the assignment to the end of the generation."""
        beating = asyncio.create_task(self._beat(generation), name="heartbeats of a group member")
        beating.add_done_callback(lambda _: self._ending.set())
        try:
            await self._listener.assigned(generation)
            await self._ending.wait()
            if not self._is_lost and not beating.done():
                await self._listener.revoked(generation)
            else:
                await self._listener.lost(generation)
            self._generation = None
            if beating.done():
                beating.result()  # raises what cannot be mended
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, generation: Generation) -> None:
        """Heartbeats go on while the generation is revoked. Returns when the group goes on without the member, or may
        do so: the session is over that began when the last heartbeat that was answered was sent."""
        loop = asyncio.get_running_loop()
        session_s = self._times.session_timeout_ms / 1000
        patience_s = session_s / _BEATS_IN_SESSION
        step_s = min(patience_s, self._times.heartbeat_interval_ms / 1000)
        ends_at = loop.time() + session_s
        while loop.time() < ends_at:
            await asyncio.sleep(min(step_s, ends_at - loop.time()))
            sent_at = loop.time()
            code = await self._joining.beat(generation, max(0.0, min(patience_s, ends_at - sent_at)))
            if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                ends_at = sent_at + session_s
                if code != ErrorCode.NONE:
                    self._ending.set()
            elif code is not None:
                break
        self._is_lost = True
