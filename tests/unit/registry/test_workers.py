"""Threads for schemas: what waits for them is bounded."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.registry.errors import RegistryError
from penstock.registry.serving.working import Workers


def test_work_is_refused_when_too_much_waits_and_taken_again_when_it_is_done() -> None:
    async def run() -> None:
        workers, release = Workers(threads=1, most_waiting=2), threading.Event()
        jobs = [asyncio.create_task(workers.run(release.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        jobs[1].cancel()  # its place is taken until a thread has looked at it
        with pytest.raises(RegistryError) as refused:
            await workers.run(lambda: None)
        assert refused.value.status == 503
        release.set()
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        assert [outcomes[0], outcomes[2]] == [True, True]
        assert await workers.run(lambda: 7) == 7
        workers.close()

    asyncio.run(run())
