"""Steps of moves that are ready at about the same time become one change of the metadata.

A change costs each broker the same, whether it is about one partition or about a hundred: the controller writes it,
all brokers read it, and clients ask for metadata where a leader is another. A move of many partitions has hundreds of
steps, in each of which followers join and others leave.

Rules:
- The first step is made at once. Steps that come within the next fifth of a second wait for its end, and go together,
  whichever leaders ask for them.
- Only what nobody waits for waits (`can_wait`). A request that asks for something else as well is not held up. Other
  requests of the same leader come behind it, since a leader has one under way.
- Each asker has the answer that it would have had alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from penstock.cluster.controller.office import Decide
from penstock.cluster.decisions.partitions import Alteration, Outcome, decide_alterations
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult

# A change takes each broker 4 to 12 ms of CPU: with two of them in a second, moves take up to 2 % of a core from
# clients. The end of a move is later by that much. Bench: cluster-moves.
INTERVAL_S = 0.2

Waiting = tuple[Alteration, "asyncio.Future[Outcome]"]


class MoveSteps:
    def __init__(self, change: Callable[[Decide[Outcome]], Awaitable[tuple[Outcome, ...]]]) -> None:
        self._change = change
        self._waiting: list[Waiting] = []
        self._sharing: asyncio.Task[None] | None = None
        self._next_at = 0.0  # by the loop's clock
        self._is_closed = False

    async def make(self, alteration: Alteration) -> tuple[AlterPartitionResult, ...]:
        """Raises ApiError."""
        if self._is_closed:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((alteration, outcome))
        if self._sharing is None:
            self._sharing = loop.create_task(self._share(), name="steps of moves")
        result = await outcome
        if isinstance(result, Exception):
            raise result
        return result

    async def close(self) -> None:
        """Whoever waits asks another controller."""
        self._is_closed = True
        if self._sharing is not None:
            self._sharing.cancel()
            await asyncio.gather(self._sharing, return_exceptions=True)
        self._tell([ApiError(ErrorCode.NOT_CONTROLLER)] * len(self._waiting))

    async def _share(self) -> None:
        now = asyncio.get_running_loop().time
        try:
            while self._waiting:
                await asyncio.sleep(max(self._next_at - now(), 0.0))
                self._tell(await self._decide([alteration for alteration, _ in self._waiting]))
                self._next_at = now() + INTERVAL_S
        finally:
            self._sharing = None

    async def _decide(self, alterations: Sequence[Alteration]) -> Sequence[Outcome]:
        try:
            return await self._change(lambda image: decide_alterations(image, alterations))
        except Exception as error:  # noqa: BLE001  # each asker is told, as if it had been alone
            return [error] * len(alterations)

    def _tell(self, outcomes: Sequence[Outcome]) -> None:
        """Those that have waited longest."""
        told, self._waiting = self._waiting[: len(outcomes)], self._waiting[len(outcomes) :]
        for (_, outcome), result in zip(told, outcomes, strict=True):
            if not outcome.done():  # whoever asked may be gone
                outcome.set_result(result)
