"""Gauges that look at many things, while these things change."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.cluster.decisions.decision import TopicSelector
from penstock.core.metrics.samples import Sample
from penstock.testing.clock import ManualClock
from penstock.testing.disks.memory import MemoryFiles
from tests.unit.broker.served import Served, serving

PARTITIONS = 4
OFFLINE = ("kafka_server_replicamanager_offlinereplicacount", "kafka_controller_kafkacontroller_offlinepartitionscount")
NONE_OFFLINE: dict[str, list[Sample]] = {name: [((), 0)] for name in OFFLINE}


async def read_gauges(served: Served, delete_after: int, *, make_anew: bool) -> tuple[dict[str, list[Sample]], int]:
    """The gauges of offline partitions, and how many steps they took. The topic is deleted between two of the steps."""
    await served.create("orders", PARTITIONS)
    reading = served.broker.metrics.read_gauges()
    steps = 0
    while True:
        if steps == delete_after:
            await served.broker.metadata.delete_topics([TopicSelector(name="orders")])
            if make_anew:
                await served.create("orders", 1)
        try:
            next(reading)
        except StopIteration as stop:
            return {name: stop.value[name] for name in OFFLINE}, steps
        steps += 1


def check_every_step(directory: Path, *, make_anew: bool) -> None:
    async def run() -> None:
        files = MemoryFiles(ManualClock().now_ms)
        files.make_directories(str(directory))
        async with serving(directory, files=files) as served:
            delete_after, steps = 0, 1
            while delete_after < steps:
                read, steps = await read_gauges(served, delete_after, make_anew=make_anew)
                assert read == NONE_OFFLINE, f"deleted after {delete_after} steps"
                if make_anew:
                    await served.broker.metadata.delete_topics([TopicSelector(name="orders")])
                delete_after += 1

    asyncio.run(run())


def test_no_partition_counts_as_offline_when_its_topic_is_deleted_between_two_steps(tmp_path: Path) -> None:
    check_every_step(tmp_path, make_anew=False)


def test_no_partition_counts_as_offline_when_its_topic_is_made_anew_and_smaller(tmp_path: Path) -> None:
    check_every_step(tmp_path, make_anew=True)
