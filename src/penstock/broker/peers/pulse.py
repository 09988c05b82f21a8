"""Whether the other brokers live at this moment: each is asked for a sign, and answers within a millisecond.

A process that dies closes its connections one after the other. A client whose connection went first asks another broker
who leads now, and its question may arrive before that broker has lost its own connection. librdkafka asks again only
after a second. So an answer about leaders is given when every other broker has shown a sign of life that was asked for
after the question came, or when a connection has ended (`suspects` says what happens then), or after a moment.

- Questions that come while signs are being asked for share the next round of them.
- Signs that were asked for just now are good enough: however many questions come, there are few rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from penstock.broker.peers.asking import Ask
from penstock.broker.peers.peer import PeerUnavailableError, versions_request

# A broker that does not answer within this may be busy, paused or cut off. Nobody can tell which, and the store's
# session decides.
_MOMENT_S = 0.05
_FRESH_S = 0.002
# How long a broker that did not answer is not asked: answers must not wait for it one by one.
_SILENCE_S = 1.0
_CHANNEL = "pulse"


class Pulse:
    def __init__(self, ask: Ask, others: Callable[[], Collection[int]]) -> None:
        """`others` are the brokers that may lead, in the image of the moment."""
        self._ask = ask
        self._others = others
        self._taken_at = float("-inf")  # when the last round began that is complete
        self._silent_until: dict[int, float] = {}  # by broker
        self._round: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_known(self) -> bool:
        """Whether there is nothing to ask now."""
        return self._is_closed or not self._others() or self._taken_at >= asyncio.get_running_loop().time() - _FRESH_S

    async def take(self) -> None:
        since = asyncio.get_running_loop().time() - _FRESH_S
        while self._taken_at < since and not self._is_closed:
            if self._round is None:
                self._round = asyncio.ensure_future(self._ask_all())
            await asyncio.wait([self._round])  # which goes on for others if this one gives up

    async def close(self) -> None:
        """Whoever waits goes on without a sign."""
        self._is_closed = True
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    async def _ask_all(self) -> None:
        began = asyncio.get_running_loop().time()
        self._silent_until = {each: until for each, until in self._silent_until.items() if until > began}
        try:
            await asyncio.gather(*(self._ask_one(each) for each in self._others() if each not in self._silent_until))
        finally:
            self._taken_at = began
            self._round = None

    async def _ask_one(self, node_id: int) -> None:
        try:
            await self._ask(node_id, versions_request(), timeout_s=_MOMENT_S, channel=_CHANNEL)
        except PeerUnavailableError:
            self._silent_until[node_id] = asyncio.get_running_loop().time() + _SILENCE_S
