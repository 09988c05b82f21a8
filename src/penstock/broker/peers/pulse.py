"""Asks the other brokers for a sign of life, which takes a live broker a millisecond.

A dying process closes its connections one after the other. A client whose connection went first asks another broker for
the new leader, and its request may arrive before that broker has lost its own connection. librdkafka asks again only
after a second. So an answer about leaders goes out when every other broker has shown a sign of life that was requested
after the question came, or when a connection has ended (`suspects` describes that case), or after a moment.

- Questions that come during a round share the next round.
- Signs of a round that has just begun are good enough: however many questions come, there are few rounds.
- A broker without a sign is not asked again for a while, so that answers do not wait for it one by one, and requests do
  not pile up at a paused broker. A suspected broker is asked in every round: its sign ends the suspicion, and the
  suspicion ends by itself soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from penstock.broker.peers.peer import PeerUnavailableError, versions_request
from penstock.broker.peers.peer_requests import Ask
from penstock.broker.peers.suspects import Suspects

logger = logging.getLogger(__name__)

# A broker that does not answer within this time may be busy, paused or cut off. This broker cannot tell which, and the
# store's session decides.
_MOMENT_S = 0.05
_FRESH_S = 0.002
# The time for which a broker that did not answer is not asked.
_SILENCE_S = 1.0
_CHANNEL = "pulse"


class Pulse:
    def __init__(
        self, ask: Ask, others: Callable[[], Collection[int]], suspects: Suspects, silence_s: float = _SILENCE_S
    ) -> None:
        """`others` are the brokers that may lead, in the current image."""
        self._ask = ask
        self._others = others
        self._suspects = suspects
        self._silence_s = silence_s
        self._taken_at = float("-inf")  # the begin of the last complete round
        self._silent_until: dict[int, float] = {}  # by broker
        self._round: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_known(self) -> bool:
        """Whether no question is needed now."""
        return self._is_closed or not self._others() or self._taken_at >= asyncio.get_running_loop().time() - _FRESH_S

    async def take(self) -> None:
        since = asyncio.get_running_loop().time() - _FRESH_S
        while self._taken_at < since and not self._is_closed:
            if self._round is None:
                self._round = asyncio.ensure_future(self._ask_all())
            await asyncio.wait([self._round])  # the round goes on for others if this caller gives up

    async def close(self) -> None:
        """Waiting callers go on without a sign."""
        self._is_closed = True
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    async def _ask_all(self) -> None:
        began = asyncio.get_running_loop().time()
        self._silent_until = {each: until for each, until in self._silent_until.items() if until > began}
        asked = [each for each in self._others() if each in self._suspects or each not in self._silent_until]
        try:
            failures = await asyncio.gather(*map(self._ask_one, asked), return_exceptions=True)
            for node_id, failure in zip(asked, failures, strict=True):
                if failure is not None:
                    self._hear_nothing(node_id, failure)
        finally:
            self._taken_at = began
            self._round = None

    async def _ask_one(self, node_id: int) -> None:
        losses = self._suspects.losses
        await self._ask(node_id, versions_request(), timeout_s=_MOMENT_S, channel=_CHANNEL)
        self._suspects.hear_sign(node_id, after=losses)

    def _hear_nothing(self, node_id: int, failure: BaseException) -> None:
        if not isinstance(failure, PeerUnavailableError):  # the signs of the others count even so
            logger.error("asking broker %d for a sign of life failed", node_id, exc_info=failure)
        if node_id not in self._suspects:
            self._silent_until[node_id] = asyncio.get_running_loop().time() + self._silence_s
