"""Producer ids from blocks. The store records a block before the first use of an id, so no id is ever given twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.cluster.store.znodes import ProducerIdBlock
from penstock.protocol.errors import ApiError, ErrorCode


class ProducerIds:
    def __init__(self, allocate_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate_block = allocate_block
        self._block = range(0)
        self._allocating = asyncio.Lock()

    async def next(self) -> int:
        await self.ensure()
        return self.take()

    async def ensure(self) -> None:
        """Returns when `take` has an id, if the caller calls `take` in the same turn of the loop."""
        while not self._block:
            async with self._allocating:
                if not self._block:  # another waiter may have fetched a block meanwhile
                    first, size = await self._allocate_block()
                    self._block = range(first, first + size)

    def take(self) -> int:
        """For callers that cannot wait. COORDINATOR_LOAD_IN_PROGRESS, as in Kafka, when the broker has to fetch a block
        first: clients ask again.
        """
        if not self._block:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer ids are being allocated")
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id
