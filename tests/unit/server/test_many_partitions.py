"""Who looks at a broker with many partitions does not keep its clients waiting."""

from __future__ import annotations

from pathlib import Path

from penstock.server.monitoring.exposition import Exposition
from penstock.testing.clock import ManualClock
from penstock.testing.disks.memory import MemoryFiles
from tests.unit.broker.served import serving
from tests.unit.broker.test_large_requests import MAX_HELD_MS, hold_during, smallest_hold

PARTITIONS = 3_000
TOPICS_WITH_COUNTS = 10_000


def test_loop_is_free_when_a_broker_with_many_partitions_is_scraped(tmp_path: Path) -> None:
    texts = []

    async def run(directory: Path) -> float:
        files = MemoryFiles(ManualClock().now_ms)
        files.make_directories(str(directory))
        async with serving(directory, files=files) as served:
            await served.create("many", PARTITIONS)
            for number in range(TOPICS_WITH_COUNTS):
                served.broker.metrics.topics.get(f"topic-{number}").bytes_in += 1
            exposition = Exposition(served.broker.metrics, "1.2.3", served.broker.slices)
            await exposition.render_metrics()  # imports what the first scrape needs

            async def scrape() -> None:
                texts.append(await exposition.render_metrics())

            return await hold_during(scrape)

    assert smallest_hold(run, tmp_path) < MAX_HELD_MS
    lines = texts[-1].splitlines()
    assert sum(line.startswith(b"kafka_log_log_size{") for line in lines) == PARTITIONS
    assert b"kafka_server_replicamanager_partitioncount 3000" in lines
    assert b"kafka_controller_kafkacontroller_offlinepartitionscount 0" in lines
