"""Producer ids, handed out from blocks that are recorded before the first id of a block is used, so none is ever
given twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.cluster.znodes import ProducerIdBlock


class ProducerIds:
    def __init__(self, allocate_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate_block = allocate_block
        self._block = iter(range(0))
        self._allocating = asyncio.Lock()

    async def next(self) -> int:
        producer_id = next(self._block, None)
        while producer_id is None:
            async with self._allocating:
                producer_id = next(self._block, None)  # another waiter may have fetched a block meanwhile
                if producer_id is None:
                    first, size = await self._allocate_block()
                    self._block = iter(range(first, first + size))
                    producer_id = next(self._block, None)
        return producer_id
