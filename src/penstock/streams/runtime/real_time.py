"""Whether an application may run in real time: its plan, its settings, and as many task slots as its tasks.

In real time all tasks of all queries run at the same time and for as long as the run: one for each partition that a
query reads and, where it keeps state, one for each shuffle partition. Spark waits in silence where slots are missing.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.pipelines.pipeline import Settings
from penstock.streams.planner.plan import Plan
from penstock.streams.planner.realtime import obstacles
from penstock.streams.topology.errors import StreamsError

logger = logging.getLogger(__name__)

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")


def check_plan(plan: Plan, settings: Settings) -> None:
    """StreamsError for what Spark's real-time mode, or its connector, cannot do."""
    found = obstacles(plan)
    if found:
        others = "".join(f" {each.node}: {each.reason}." for each in found[1:])
        raise StreamsError(
            f"{found[0].node} is in the way of real time: {found[0].reason}",
            f"Do without it, or set a trigger such as 100 milliseconds.{' Also in the way:' if others else ''}{others}",
        )
    if settings.engine != "jvm":
        raise StreamsError(
            "only Spark's own Kafka connector reads topics in real time, and writes at least once",
            "Set engine=jvm, with the connector's jars on the class path: --set spark.jars=...",
        )
    if settings.max_records_per_batch:
        raise StreamsError(
            "there are no batches in real time that max_records_per_batch would limit", "Leave that setting out."
        )


def for_reading(settings: Settings) -> Settings:
    """A task reads one partition, neither more nor less: the connector refuses `parallelism` for reading."""
    return replace(settings, parallelism=0)


@dataclass(frozen=True, slots=True)
class Slots:
    """The task slots of a session: its master, and the number of partitions of a shuffle."""

    master: str
    shuffle_partitions: int

    def check(self, plan: Plan, read: Mapping[str, tuple[str, ...]], partitions: Mapping[str, int]) -> None:
        """`read` has the topics of each query, `partitions` those of each topic. StreamsError."""
        needed = self.needed(plan, read, partitions)
        there = slots_of(self.master)
        text = f"in real time it runs {needed} tasks at once: {self._counted(plan, read, partitions)}"
        if there is None:
            logger.info("%s; %s must have as many cores free", text, self.master)
        elif there < needed:
            raise StreamsError(
                f"{text}; {self.master} has room for {there}",
                f"Say --master 'local[{needed}]' (threads, of which a core can run several), or have fewer tasks:"
                " parallelism says how many a query with state has besides those that read.",
            )

    def needed(self, plan: Plan, read: Mapping[str, tuple[str, ...]], partitions: Mapping[str, int]) -> int:
        return sum(sum(tasks) for tasks in self._tasks(plan, read, partitions).values())

    def _tasks(
        self, plan: Plan, read: Mapping[str, tuple[str, ...]], partitions: Mapping[str, int]
    ) -> dict[str, tuple[int, int]]:
        """By query: tasks that read, and tasks with state."""
        stateful = {query.name for query in plan.queries if query.is_stateful}
        return {
            name: (
                sum(partitions.get(topic, 1) for topic in topics),
                self.shuffle_partitions if name in stateful else 0,
            )
            for name, topics in read.items()
        }

    def _counted(self, plan: Plan, read: Mapping[str, tuple[str, ...]], partitions: Mapping[str, int]) -> str:
        tasks = self._tasks(plan, read, partitions).items()
        return ", ".join(
            f"{name} {reading} to read" + (f" and {keeping} to keep state" if keeping else "")
            for name, (reading, keeping) in tasks
        )


def slots_of(master: str) -> int | None:
    """None: a cluster's, which come and go."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    said = found.group(1) or "1"
    return (os.cpu_count() or 1) if said == "*" else int(said)
