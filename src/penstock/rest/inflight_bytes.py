"""Bytes of callers that are in memory or on their way to brokers: bounded over all callers.

Bodies count while they are being read; where they are too many a caller gets an error to try again, because a slow
caller would otherwise hold up the others. Complete bodies wait for their turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.requests import Request

from penstock.core.byte_budget import ByteBudget
from penstock.rest.errors import TOO_MANY_REQUESTS, RestError

# Smaller bodies do not count: the connections are bounded, and so is the sum of such bodies.
_SMALL = 64 * 1024


class InflightBytes:
    def __init__(self, most: int) -> None:
        self._most = most
        self._reading = 0
        self._sending = ByteBudget(most)

    @property
    def reading(self) -> int:
        return self._reading

    @property
    def sending(self) -> int:
        return self._sending.taken

    async def read_body(self, request: Request) -> bytes:
        """Raises RestError where too many bodies are being read."""
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) <= _SMALL:
            return await request.body()
        chunks: list[bytes] = []
        counted = 0
        try:
            async for chunk in request.stream():
                self.count_reading(len(chunk))
                counted += len(chunk)
                chunks.append(chunk)
        finally:
            self.count_reading(-counted)
        return b"".join(chunks)

    def count_reading(self, size: int) -> None:
        """Counts bytes that came, or went. Raises RestError where too many are being read: then they do not count."""
        if size > 0 and self._reading + size > self._most:
            raise RestError(TOO_MANY_REQUESTS, "too many large bodies are being read: try again")
        self._reading += size

    @asynccontextmanager
    async def sending_bytes(self, size: int) -> AsyncGenerator[None]:
        """Waits until there is room; first come, first served."""
        await self.begin(size)
        try:
            yield
        finally:
            self.end(size)

    async def begin(self, size: int) -> None:
        """`sending_bytes` for hot paths; `end` follows in any case."""
        await self._sending.take(min(size, self._most))

    def grow(self, size: int, needed: int) -> int:
        """The bytes that `begin` admitted have grown. Does not wait, because a waiting caller holds bytes that others
        need. Returns the size for `end`. Raises RestError where there is no room.
        """
        if needed <= size:
            return size
        more = min(needed, self._most) - min(size, self._most)
        if not self._sending.take_more(more):
            raise RestError(TOO_MANY_REQUESTS, "too many large records are on their way: try again")
        return needed

    def end(self, size: int) -> None:
        self._sending.give_back(min(size, self._most))
