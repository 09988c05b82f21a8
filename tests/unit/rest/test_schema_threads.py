"""Threads for schemas: what waits for them is bounded."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.client.registry import RegistryClient, RegistrySettings
from penstock.rest.errors import TOO_MANY_REQUESTS, RestError
from penstock.rest.formats.with_schemas import SchemaPayloads


def test_work_is_refused_when_too_much_waits_and_taken_again_when_it_is_done() -> None:
    async def run() -> None:
        settings = RegistrySettings.of_url("http://registry.test:8081")
        payloads, release = SchemaPayloads(RegistryClient(settings), most_waiting=2), threading.Event()
        jobs = [asyncio.create_task(payloads.in_thread(release.wait)) for _ in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(RestError) as refused:
            await payloads.in_thread(lambda: None)
        assert refused.value.code == TOO_MANY_REQUESTS
        release.set()
        assert await asyncio.gather(*jobs) == [True] * 6
        assert await payloads.in_thread(lambda: 7) == 7
        await payloads.close()

    asyncio.run(run())
