"""A request's claim on a reply of a coordinator, which may come at once or much later."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

ResultType = TypeVar("ResultType")


class Ticket(Generic[ResultType]):
    """A coordinator's token (`coordinators.outcome.Token`) that a coroutine can wait for."""

    __slots__ = ("_future", "result")

    def __init__(self) -> None:
        self.result: ResultType | None = None  # None: not there yet
        self._future: asyncio.Future[ResultType] | None = None

    def release(self, result: ResultType) -> None:
        self.result = result
        if self._future is not None and not self._future.done():  # the client may be gone
            self._future.set_result(result)

    async def wait(self) -> ResultType:
        if self.result is not None:
            return self.result
        self._future = asyncio.get_running_loop().create_future()
        return await self._future
