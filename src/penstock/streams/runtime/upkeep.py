"""The upkeep of an application: before its queries start, and now and then while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.runtime.runner import checkpoint_of
from penstock.streams.planner.plan import Plan
from penstock.streams.runtime.checkpoints import Files
from penstock.streams.runtime.driver_lease import Lease, take_lease
from penstock.streams.runtime.identity import check_identity, check_partitions, has_identity
from penstock.streams.runtime.pipelines import topics_by_query
from penstock.streams.runtime.purge import PURGE_EVERY_S, purge_read
from penstock.streams.runtime.real_time import Slots
from penstock.streams.runtime.topics import make_topics, open_admin, partition_counts, refuse_leftovers, table_topics

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

logger = logging.getLogger(__name__)


class ApplicationUpkeep:
    """For one run, on its thread."""

    def __init__(
        self,
        plan: Plan,
        pipeline: Pipeline,
        files: Files,
        now: Callable[[], float] = time.monotonic,
        slots: Slots | None = None,
        lease: Lease | None = None,
    ) -> None:
        """`slots` are those of a run in real time, which needs them all at once. The caller gives a `lease` of its own
        back; without one, the run takes its own."""
        self._plan = plan
        self._pipeline = pipeline
        self._files = files
        self._now = now
        self._slots = slots
        self._lease = lease
        self._own_lease: Lease | None = None
        self._next = 0.0
        self._admin: AdminClient | None = None
        self._table_partitions: dict[str, int] = {}
        self._purged: Offsets = {}

    def prepare(self) -> None:
        """Refuses to run beside another driver, makes the topics that are missing, and refuses a checkpoint of another
        topology. PipelineError."""
        if self._lease is None:
            name = self._pipeline.name
            self._lease = self._own_lease = take_lease(name, self._pipeline.settings, checkpoint_of(self._pipeline))
        try:
            if self._lease is not None:
                self._lease.check()  # Spark took its time to start
            self._prepare_topics()
        except BaseException:
            self.close()
            raise

    def _prepare_topics(self) -> None:
        settings = self._pipeline.settings
        self._admin = open_admin({**settings.kafka, "bootstrap.servers": settings.bootstrap_servers})
        if not has_identity(self._files):
            refuse_leftovers(self._admin, self._plan)
        tables, counts = table_topics(self._plan), make_topics(self._admin, self._plan)
        self._table_partitions = {name: count for name, count in counts.items() if name in tables}
        if self._slots is not None:
            self._slots.check(self._plan, topics_by_query(self._plan), counts)
        check_identity(self._files, self._plan, self._table_partitions)
        self._next = self._now() + PURGE_EVERY_S

    def look(self) -> None:
        """Purges, and raises PipelineError where the run must not go on."""
        if self._lease is not None:
            self._lease.check()
        if self._admin is None or self._now() < self._next:
            return
        self._next = self._now() + PURGE_EVERY_S
        purge_read(self._admin, self._files, self._plan, self._purged)
        try:
            counts = partition_counts(self._admin)
        except PipelineError as error:  # the sources have patience of their own
            logger.warning("%s", error.message)
            return
        there = {name: counts[name] for name in self._table_partitions if name in counts}
        check_partitions(self._plan, self._table_partitions, there)

    def close(self) -> None:
        """The next driver may begin."""
        if self._own_lease is not None:
            self._own_lease.close()
