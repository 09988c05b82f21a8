"""A request's claim on a reply of a coordinator, which may come at once or much later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


class Ticket:
    __slots__ = ("future", "result")

    def __init__(self) -> None:
        self.result: Any = None
        self.future: asyncio.Future[Any] | None = None

    def release(self, result: object) -> None:
        if self.future is None:
            self.result = result
        elif not self.future.done():  # the client may be gone
            self.future.set_result(result)

    async def wait(self) -> Any:
        if self.result is None:
            self.future = asyncio.get_running_loop().create_future()
            return await self.future
        return self.result


def release_all(replies: Iterable[tuple[object, object]]) -> None:
    """Replies of a coordinator: (the ticket that came with the request, the result)."""
    for token, result in replies:
        assert isinstance(token, Ticket)
        token.release(result)
