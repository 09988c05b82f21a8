"""Threads for schemas: what waits for them is bounded."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from penstock.registry.errors import RegistryError
from penstock.registry.services.worker_threads import Workers
from penstock.schemas.schema import InvalidSchemaError


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


class Parsed:
    """What a reader has made of a text when it refuses the rest."""


def test_nothing_of_a_refused_schema_is_left_to_the_collector() -> None:
    kept: list[weakref.ref[Parsed]] = []

    def refuse() -> None:
        parsed = Parsed()
        kept.append(weakref.ref(parsed))
        raise InvalidSchemaError("too deep")

    async def use() -> None:
        workers = Workers(threads=1)
        with pytest.raises(RegistryError, match="too deep"):
            await workers.run(refuse)
        await workers.run(lambda: None)  # the thread has left the first work
        workers.close()

    gc.collect()
    gc.disable()
    try:
        asyncio.run(use())
        assert [each() for each in kept] == [None]
    finally:
        gc.enable()
