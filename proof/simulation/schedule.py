"""What the runs of all schedules share: the clients, time and its limits, and the verdict."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.protocol.errors import ApiError
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.testing.disks.memory import DiskFault
from proof.simulation.client import FOR_GROUP, Call, Client, Script, Setting, ask
from proof.simulation.machine import Machine
from proof.simulation.members import ClassicMember, Committer, ConsumerMember, Repeater
from proof.simulation.notebook import Notebook, Partition
from proof.simulation.operating.decommissioner import Decommissioner
from proof.simulation.operating.operator import Operator
from proof.simulation.pipelining.producer import JavaProducer, LibrdkafkaProducer
from proof.simulation.plan import Plan
from proof.simulation.producers import (
    BriefProducer,
    IdempotentProducer,
    KeyedProducer,
    NewTransactionalProducer,
    SimpleProducer,
    TransactionalProducer,
)
from proof.simulation.readers import CommittedReader, Reader
from proof.simulation.topic_changes import TopicChanger

_KINDS: dict[str, type[Client]] = {
    "plain": SimpleProducer,
    "idempotent": IdempotentProducer,
    "librdkafka": LibrdkafkaProducer,
    "java": JavaProducer,
    "keyed": KeyedProducer,
    "brief": BriefProducer,
    "transactional-1": TransactionalProducer,
    "transactional-2": NewTransactionalProducer,
    "shared-1": TransactionalProducer,
    "shared-2": NewTransactionalProducer,
    "reader": Reader,
    "committed-reader": CommittedReader,
    "committer": Committer,
    "repeater": Repeater,
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    "topics": TopicChanger,
    "operator": Operator,
    "decommissioner": Decommissioner,
}
# Faults come before what clients do in the same moment.
FAULTS = -2
START_LIMIT_MS = 60_000
CLIENTS_LIMIT_MS = 30_000
_MOST_EVENTS = 1_000_000


@dataclass(frozen=True)
class Verdict:
    plan: Plan
    failures: tuple[str, ...]
    trace: tuple[str, ...]
    digest: str
    requests: int
    crashes: int
    cleanings: int

    @classmethod
    def of(cls, plan: Plan, notebook: Notebook) -> Verdict:
        return cls(
            plan,
            tuple(notebook.failures),
            tuple(notebook.trace),
            notebook.digest(),
            notebook.requests,
            notebook.crashes,
            notebook.cleanings,
        )

    @property
    def is_sound(self) -> bool:
        return not self.failures


class ScheduleRun:
    """Runs a schedule's events. What came of them is in the notebook."""

    def __init__(self, plan: Plan, setting: Setting) -> None:
        self.plan = plan
        self.setting = setting
        self.world = setting.world
        self.notebook = setting.notebook
        self._events = 0

    def invite(self) -> list[Client]:
        plan = self.plan
        return [_KINDS[kind](number, kind, self.setting, plan.seed) for number, kind in enumerate(plan.clients)]

    def audit(self) -> None:
        auditor = Auditor(len(self.plan.clients), "auditor", self.setting, self.plan.seed)
        auditor.start()
        self.run_until(lambda: auditor.is_done, CLIENTS_LIMIT_MS, "committed offsets are found")

    def stop(self, machine: Machine) -> None:
        done: list[bool] = []
        machine.stop(lambda: done.append(True))
        self.run_until(lambda: bool(done), START_LIMIT_MS, "the broker stops")

    # ---- time

    def run_for(self, length_ms: float) -> None:
        end_ms = self.world.time_ms + length_ms
        while (next_ms := self.world.next_time()) is not None and next_ms <= end_ms:
            self.step()
        self.world.time_ms = end_ms

    def run_until(self, condition: Callable[[], bool], limit_ms: float, what: str) -> None:
        end_ms = self.world.time_ms + limit_ms
        while not condition():
            next_ms = self.world.next_time()
            if next_ms is None or next_ms > end_ms:
                self.notebook.fail(f"it did not come to pass that {what}")
                return
            self.step()

    def step(self) -> None:
        self._events += 1
        if self._events > _MOST_EVENTS:
            raise RuntimeError("a schedule of endless events")
        self.world.step()
        machines = self.setting.machines
        is_busy = True
        while is_busy:  # one may wake another
            is_busy = False
            for machine in machines:
                if machine.has_work:
                    machine.rest()
                    is_busy = True


class Auditor(Client):
    """Asks for every offset that anybody committed, as a consumer would."""

    def run(self) -> Script:
        places: dict[str, set[Partition]] = {}
        for group, partition in self.notebook.committed_places():
            places.setdefault(group, set()).add(partition)
        for group, partitions in places.items():
            yield from self.find_coordinator(group, FOR_GROUP)
            yield from self._ask(group, sorted(partitions))

    def _ask(self, group: str, partitions: list[Partition]) -> Script:
        topic = OffsetFetchRequestTopics(name=partitions[0][0], partition_indexes=[index for _, index in partitions])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=True
        )
        while True:
            node = yield from self.coordinator(group, FOR_GROUP)
            response = yield from ask(Call(request, 8, node=node), OffsetFetchResponse)
            if response is not None and not response.groups[0].error_code:
                rows = [(each.name, row) for each in response.groups[0].topics for row in each.partitions]
                if not any(row.error_code for _, row in rows):
                    for name, row in rows:
                        self.notebook.committed_offsets[group, (name, row.partition_index)] = row.committed_offset
                    return
            yield 100.0


@contextlib.contextmanager
def listening(notebook: Notebook, machines: Sequence[Machine]) -> Iterator[None]:
    """Logged exceptions are failures."""
    logger = logging.getLogger("penstock")
    before = logger.level, logger.propagate
    handler = _Listener(notebook, machines)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _Listener(logging.Handler):
    """An exception that reached the log is one that nobody was prepared for, unless the disk was told to fail."""

    def __init__(self, notebook: Notebook, machines: Sequence[Machine]) -> None:
        super().__init__(logging.ERROR)
        self._notebook = notebook
        self._machines = machines

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        is_expected = isinstance(error, DiskFault | ApiError) or any(machine.is_gone() for machine in self._machines)
        if error is not None and not is_expected:
            self._notebook.fail(f"{record.getMessage()}: {error!r}")
