"""The clients of callers: each has a producer of its own, for as long as the client is open."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.batch_producer import NewRecord
from penstock.client.brokers import Brokers
from penstock.rest.clients import CallerBrokers


def test_producer_ends_with_its_client_when_the_caller_is_gone() -> None:
    async def run() -> None:
        brokers = CallerBrokers([("127.0.0.1", 1)])
        producer = brokers.producer
        assert brokers.producer is producer
        await brokers.close()
        with pytest.raises(OSError):  # of the client: it is closed
            await producer._batches.produce("t", 0, [NewRecord(None, b"x", (), None)])
        assert type(brokers.dedicated()) is Brokers
        await brokers.close()

    asyncio.run(run())
