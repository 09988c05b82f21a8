"""A member of a group for as long as its owner wants to be in it.

A member ends for a reason that its own tries do not mend: a refused login, a right that was taken away, other members
in the group that are no drivers. All of these may pass. So a new member follows, after a pause that grows until one is
in the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from penstock.client.retries import SYSTEM_CHANCE
from penstock.core.time.backoff import Backoff, Chance, Pauses

# A second, for an issuer of logins that is away for a moment; not more than two tries a minute where nothing helps.
BACKOFF: Final = Backoff(1.0, 30.0)


class Membership(Protocol):
    """`penstock.client.membership.Member`."""

    def start(self) -> None: ...

    async def close(self) -> None: ...


class Rejoining:
    """On one loop. One member at a time."""

    def __init__(
        self,
        open_member: Callable[[], Membership],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Chance = SYSTEM_CHANCE,
    ) -> None:
        self._open_member = open_member
        self._sleep = sleep
        self._member = open_member()
        self._pauses = Pauses(BACKOFF, chance)
        self._following: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        self._member.start()

    def settle(self) -> None:
        """The member is in the group."""
        self._pauses.reset()

    def try_again(self) -> None:
        """The member has ended. May be called by its own task."""
        if self._is_closed:
            return
        self._following = asyncio.create_task(self._follow(self._pauses.next_s()), name="a group member's successor")

    async def close(self) -> None:
        self._is_closed = True
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._member.close()

    async def _follow(self, pause_s: float) -> None:
        await self._sleep(pause_s)
        await self._member.close()  # the group need not wait for it
        self._member = self._open_member()
        self._member.start()
