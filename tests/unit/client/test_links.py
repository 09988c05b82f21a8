"""Connections to several brokers are closed side by side: one that takes its time does not hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from penstock.client.addresses import Address
from penstock.client.connection import Connection
from penstock.client.routes.links import Link, Links
from penstock.client.security import PLAINTEXT
from penstock.protocol.messages.api_versions import ApiVersionsResponse

ADDRESSES = [("one", 1), ("two", 2), ("three", 3)]


class SlowConnection:
    """Its end waits until the others of its kind end as well."""

    is_open = True
    is_idle = True

    def __init__(self, ending: asyncio.Barrier) -> None:
        self._ending = ending

    def end(self, reason: str) -> None:
        assert reason

    async def close(self) -> None:
        await self._ending.wait()


class SlowLinks(Links):
    def __init__(self, count: int) -> None:
        super().__init__(PLAINTEXT, "test")
        self.ending = asyncio.Barrier(count)

    async def _connect(self, address: Address) -> Link:
        return Link(address, cast("Connection", SlowConnection(self.ending)), ApiVersionsResponse())


async def keep_none(links: Links) -> None:
    await links.keep_only(set())


async def close(links: Links) -> None:
    await links.close()


@pytest.mark.parametrize("end", [keep_none, close])
def test_all_links_end_together_when_each_takes_its_time(end: Callable[[Links], Coroutine[Any, Any, None]]) -> None:
    async def open_and_end() -> None:
        links = SlowLinks(len(ADDRESSES))
        for address in ADDRESSES:
            await links.get(address)
        async with asyncio.timeout(2):
            await end(links)
        assert [links.find(address) for address in ADDRESSES] == [None, None, None]

    asyncio.run(open_and_end())
