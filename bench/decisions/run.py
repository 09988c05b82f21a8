"""The same events at the newest level of the metadata and at the one before, in alternating rounds.

CPU is that of the whole process: the controller's and that of one broker that follows. Wall time says little where
others use the cores.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from bench.contenders import PENSTOCK
from bench.decisions.cluster import NODE_IDS, LargeCluster
from bench.gathering import Gathering, alternate
from bench.loads import Figures
from bench.rows import Row
from penstock.cluster.levels import SECURITY_LEVEL, SNAPSHOT_LEVEL
from penstock.core.loops import new_event_loop

DECISION_NAMES = ("cluster-decisions",)
BEGIN, END = "<!-- decisions: begin -->", "<!-- decisions: end -->"
PARTITIONS, QUICK_PARTITIONS = 200_000, 4_000
LEVEL_BEFORE = "level 2"
_LEVELS = {PENSTOCK.name: SNAPSHOT_LEVEL, LEVEL_BEFORE: SECURITY_LEVEL}

_EVENTS = {
    "creation": "all partitions are created",
    "broker": "a broker is killed",
    "controller": "the controller is killed",
    "start": "all brokers start, after none of them ended cleanly",
}
DECISION_ROWS = tuple(
    row
    for event, title in _EVENTS.items()
    for row in (
        Row(f"decisions-{event}", f"{title}: until all agree", "s", decimals=2),
        Row(f"decisions-{event}.cpu", "the same: CPU", "s", decimals=2),
        Row(f"decisions-{event}.drawn", "the same: CPU until Kafka's nodes show it", "s", decimals=2),
        Row(f"decisions-{event}.deltas", "the same: deltas", ""),
        Row(f"decisions-{event}.delta-size", "the same: bytes of the deltas", "KB"),
        Row(f"decisions-{event}.transactions", "the same: transactions, with those for Kafka's nodes", ""),
        Row(f"decisions-{event}.size", "the same: bytes of all transactions", "MB", decimals=1),
    )
)


class DecisionsRun:
    """Figures gather in `result`."""

    def __init__(self, partitions: int, rounds: int) -> None:
        self.partitions = partitions
        self.rounds = rounds
        title = f"{partitions:,} partitions on ten brokers, level {SNAPSHOT_LEVEL} of the metadata beside level 2"
        self.result = Gathering(list(_LEVELS), DECISION_ROWS, title, (BEGIN, END), LEVEL_BEFORE)

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        for number in range(self.rounds):
            for name in alternate(list(_LEVELS), number):
                with asyncio.Runner(loop_factory=new_event_loop) as runner:
                    self.result.keep(name, runner.run(measure_level(_LEVELS[name], self.partitions)), number)


async def measure_level(level: int, partitions: int) -> Figures:
    """Brokers that were killed and those that run at the end are left to the end of the loop."""
    cluster = LargeCluster(level)
    await cluster.start()
    figures = await _measure(cluster, "creation", lambda: cluster.create(partitions))
    figures |= await _measure(cluster, "broker", lambda: cluster.lose(NODE_IDS[-1]))
    figures |= await _measure(cluster, "controller", cluster.lose_controller)
    cluster.lose_all()
    return figures | await _measure(cluster, "start", cluster.start)


async def _measure(cluster: LargeCluster, event: str, make: Callable[[], Awaitable[None]]) -> Figures:
    written = cluster.written
    number = cluster.image.number
    before = written.transactions, written.size, written.delta_size
    started, cpu = time.perf_counter(), time.process_time()
    await make()
    seconds, agreed_cpu = time.perf_counter() - started, time.process_time() - cpu
    await cluster.until_drawn()
    key = f"decisions-{event}"
    return {
        key: seconds,
        f"{key}.cpu": agreed_cpu,
        f"{key}.drawn": time.process_time() - cpu,
        f"{key}.deltas": cluster.image.number - number,
        f"{key}.delta-size": (written.delta_size - before[2]) / 1_000,
        f"{key}.transactions": written.transactions - before[0],
        f"{key}.size": (written.size - before[1]) / 1_000_000,
    }
