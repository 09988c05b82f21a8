from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path, PosixPath

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


class Burning(PosixPath):
    """Something else happens whenever somebody looks."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def __str__(self) -> str:
        self.meanwhile()
        return super().__str__()


def test_health_is_told_when_another_directory_goes_offline_meanwhile() -> None:
    async def run() -> None:
        async with Ground().broker() as broker:
            burning = Burning("/burning")
            broker.directories.take_directory_offline(burning, "it burns")
            burning.meanwhile = lambda: broker.directories.offline.update({Path("/other"): "it burns, too"})
            offline = examine(broker, is_stopping=False).details["offline_directories"]
            assert offline == {"/burning": "it burns"}
            assert Path("/other") in broker.directories.offline

    asyncio.run(run())
