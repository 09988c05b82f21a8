from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.server.monitoring.health import Health, examine
from tests.unit.server.composed import DATA, Ground


def test_broker_serves_when_a_data_directory_works_and_says_why_not_otherwise() -> None:
    async def run() -> None:
        async with Ground().broker() as broker:
            details: dict[str, object] = {"node_id": 1, "offline_partitions": 0, "offline_directories": {}}
            assert examine(broker, is_stopping=False) == Health(True, (), details)
            assert examine(broker, is_stopping=True).reasons == ("shutting down",)
            broker.directories.take_directory_offline(Path(DATA), "it burns")
            health = examine(broker, is_stopping=False)
            assert not health.is_serving
            assert health.reasons == ("every data directory is offline",)
            assert health.details["offline_directories"] == {DATA: "it burns"}

    asyncio.run(run())
