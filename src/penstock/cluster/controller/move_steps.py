"""Merges steps of moves that are ready at about the same time into one change of the metadata.

A change costs each broker the same, whether it concerns one partition or a hundred: the controller writes it, all
brokers read it, and clients ask for metadata where a leader changes. A move of many partitions has hundreds of steps,
in each of which followers join and others leave.

Rules:
- The first step is made at once. Steps that come within the next fifth of a second go together at the end of that time,
  whichever leaders ask for them.
- Only steps that no request waits for are delayed (`can_wait`). A request that asks for something else as well is not
  delayed. Other requests of the same leader come behind it, since a leader has one request in flight.
- Each leader gets the answer that it would have got alone.
- A change of unknown outcome delays no later change: later changes fail with the controller's own error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from penstock.cluster.controller.active_controller import Decide
from penstock.cluster.decisions.partitions import Alteration, Outcome, decide_alterations
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult

# A change takes each broker 4 to 10 ms of CPU: with five of them in a second, moves take up to 5 % of a core from
# clients. The end of a move comes later by this time.
INTERVAL_S = 0.2

Waiting = tuple[Alteration, "asyncio.Future[Outcome]"]


class MoveSteps:
    def __init__(self, change: Callable[[Decide[Outcome]], Awaitable[tuple[Outcome, ...]]]) -> None:
        self.interval_s = INTERVAL_S
        self._change = change
        self._waiting: list[Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0  # by the loop's clock
        self._changes: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def make(self, alteration: Alteration) -> tuple[AlterPartitionResult, ...]:
        """Raises ApiError."""
        if self._is_closed:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((alteration, outcome))
        if self._timer is None:
            self._timer = loop.call_at(max(self._next_at, loop.time()), self._begin)
        result = await outcome
        if isinstance(result, Exception):
            raise result
        return result

    async def close(self) -> None:
        """Waiting requests go to another controller."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for change in self._changes:
            change.cancel()
        await asyncio.gather(*self._changes, return_exceptions=True)
        _tell_all(self._waiting, ApiError(ErrorCode.NOT_CONTROLLER))

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        self._next_at = loop.time() + self.interval_s
        steps, self._waiting = self._waiting, []
        change = loop.create_task(self._make_together(steps), name="steps of moves")
        self._changes.add(change)
        change.add_done_callback(self._changes.discard)

    async def _make_together(self, steps: Sequence[Waiting]) -> None:
        alterations = [alteration for alteration, _ in steps]
        try:
            outcomes = await self._change(lambda image: decide_alterations(image, alterations))
        except asyncio.CancelledError:
            _tell_all(steps, ApiError(ErrorCode.NOT_CONTROLLER))
            raise
        except Exception as error:  # noqa: BLE001  # each asker is told, as if it had been alone
            _tell_all(steps, error)
        else:
            for (_, outcome), result in zip(steps, outcomes, strict=True):
                _tell(outcome, result)


def _tell_all(steps: Sequence[Waiting], result: Outcome) -> None:
    for _, outcome in steps:
        _tell(outcome, result)


def _tell(outcome: asyncio.Future[Outcome], result: Outcome) -> None:
    if not outcome.done():  # the asking leader may be gone
        outcome.set_result(result)
