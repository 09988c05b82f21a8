"""One schedule from its plan to its verdict."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from penstock.broker.topic_creation import create_topic
from penstock.proof.simulation.checks import check_all, has_open_transactions
from penstock.proof.simulation.client import FOR_GROUP, Call, Client, Script, Setting, ask
from penstock.proof.simulation.machine import Machine, alone
from penstock.proof.simulation.members import ClassicMember, Committer, ConsumerMember
from penstock.proof.simulation.notebook import Notebook, Partition
from penstock.proof.simulation.plan import Fault, FaultKind, Mode, Plan
from penstock.proof.simulation.producers import (
    BriefProducer,
    IdempotentProducer,
    KeyedProducer,
    NewTransactionalProducer,
    SimpleProducer,
    TransactionalProducer,
)
from penstock.proof.simulation.readers import CommittedReader, Reader
from penstock.proof.simulation.topic_changes import TopicChanger
from penstock.proof.simulation.topics import TOPICS
from penstock.proof.simulation.world import World
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.testing.disks.memory import DiskFault

_KINDS: dict[str, type[Client]] = {
    "plain": SimpleProducer,
    "idempotent": IdempotentProducer,
    "keyed": KeyedProducer,
    "brief": BriefProducer,
    "transactional-1": TransactionalProducer,
    "transactional-2": NewTransactionalProducer,
    "shared-1": TransactionalProducer,
    "shared-2": NewTransactionalProducer,
    "reader": Reader,
    "committed-reader": CommittedReader,
    "committer": Committer,
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    "topics": TopicChanger,
}
# Faults come before what clients do in the same moment.
_FAULTS = -2
_START_LIMIT_MS = 60_000
_CLIENTS_LIMIT_MS = 30_000
# So that every chore has its turn and tombstones go.
_QUIET_MS = 2_500
# More than a transaction's time-out, a marker's longest wait and a chore's interval together.
_SETTLING_LIMIT_MS = 9_000
_CLOCK_REPAIR_MS = 4 * 3_600_000
_RESTART_MS = (1, 80, 900)
_MOST_EVENTS = 300_000


@dataclass(frozen=True)
class Verdict:
    plan: Plan
    failures: tuple[str, ...]
    trace: tuple[str, ...]
    digest: str
    requests: int
    crashes: int
    cleanings: int

    @property
    def is_sound(self) -> bool:
        return not self.failures


def simulate(plan: Plan) -> Verdict:
    simulation = _Simulation(plan)
    logger = logging.getLogger("penstock")
    before = logger.level, logger.propagate
    handler = _Listener(simulation.notebook, simulation.machine)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        simulation.run()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
    notebook = simulation.notebook
    return Verdict(
        plan,
        tuple(notebook.failures),
        tuple(notebook.trace),
        notebook.digest(),
        notebook.requests,
        notebook.crashes,
        notebook.cleanings,
    )


class _Simulation:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World()
        self.notebook = Notebook(self.world, is_strict=plan.mode is not Mode.LOOSE)
        self._chance = random.Random(plan.seed * 7 + 3)
        self.machine = Machine(
            self.world, alone(self.world, plan.mode), random.Random(plan.seed * 7 + 5), self.notebook
        )
        self.setting = Setting(self.world, [self.machine], self.notebook)
        self._events = 0

    def run(self) -> None:
        self.notebook.note("plan", repr(self.plan))
        self.machine.start()
        self._make_topics()
        clients = [
            _KINDS[kind](number, kind, self.setting, self.plan.seed) for number, kind in enumerate(self.plan.clients)
        ]
        start_ms = self.world.time_ms
        for fault in self.plan.faults:
            self.world.at(start_ms + fault.at_ms, _FAULTS, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        for client in clients:
            client.start()
        self._run_for(self.plan.duration_ms)
        self._come_to_rest(clients)
        if self.plan.mode is not Mode.LOOSE:  # there, offsets may wait for ever for a transaction that was lost
            self._audit()
        self._restart_cleanly()
        if self.machine.server is not None:
            check_all(self.machine.server.broker, self.notebook, self.plan.mode)
        self._stop()

    # ---- phases

    def _make_topics(self) -> None:
        self._run_until(lambda: self.machine.server is not None, _START_LIMIT_MS, "the broker starts")
        done: list[str] = []

        async def make() -> None:
            assert self.machine.server is not None
            for name, partitions, configs in TOPICS:
                await create_topic(self.machine.server.broker.metadata, name, partitions, configs)
                done.append(name)

        self.machine.begin(make())
        self._run_until(lambda: len(done) == len(TOPICS), _START_LIMIT_MS, "the topics are made")

    def _come_to_rest(self, clients: list[Client]) -> None:
        """No faults any more, clients finish what they do, and what nobody finishes times out."""
        self.setting.is_closing = True
        self.machine.heal()
        self.setting.slow_until_ms = 0
        self.world.wall_offset_ms += _CLOCK_REPAIR_MS  # no time-out waits for a clock that was set back
        self.machine.crash(False, 0, self._start_soon)
        self._run_until(lambda: self.machine.server is not None, _START_LIMIT_MS, "the broker starts")
        self._run_until(lambda: all(client.is_done for client in clients), _CLIENTS_LIMIT_MS, "clients finish")
        self._run_for(_QUIET_MS)
        end_ms = self.world.time_ms + _SETTLING_LIMIT_MS
        while self.world.time_ms < end_ms and not self._is_settled():
            self._run_for(_QUIET_MS)

    def _is_settled(self) -> bool:
        """No transaction is open, so nothing is to be waited for. `check_all` says what is wrong if one stays."""
        server = self.machine.server
        return server is not None and not has_open_transactions(server.broker)

    def _audit(self) -> None:
        auditor = Auditor(len(self.plan.clients), "auditor", self.setting, self.plan.seed)
        auditor.start()
        self._run_until(lambda: auditor.is_done, _CLIENTS_LIMIT_MS, "committed offsets are found")

    def _restart_cleanly(self) -> None:
        self._stop()
        self.machine.start()
        self._run_until(lambda: self.machine.server is not None, _START_LIMIT_MS, "the broker starts after a stop")

    def _stop(self) -> None:
        done: list[bool] = []
        self.machine.stop(lambda: done.append(True))
        self._run_until(lambda: bool(done), _START_LIMIT_MS, "the broker stops")

    # ---- faults

    def _strike(self, fault: Fault) -> None:
        if self.setting.is_closing:
            return
        self.notebook.note("fault", f"{fault.kind.value} {fault.length_ms}")
        match fault.kind:
            case FaultKind.KILL:
                self.machine.crash(False, fault.length_ms, self._start_soon)
            case FaultKind.POWER_CUT:
                self.machine.crash(True, fault.length_ms, self._start_after_power_cut)
            case FaultKind.CLEAN_RESTART:
                self.machine.stop(self._start_soon)
            case FaultKind.CLOCK_JUMP:
                self.world.wall_offset_ms += fault.length_ms
            case FaultKind.SLOW_NETWORK:
                self.setting.slow_until_ms = self.world.time_ms + fault.length_ms
            case _:
                self.machine.break_disk(fault.kind, fault.length_ms)

    def _start_after_power_cut(self) -> None:
        self.notebook.forget_unpromised()
        self._start_soon()

    def _start_soon(self) -> None:
        self.world.after(self._chance.choice(_RESTART_MS), _FAULTS, self.machine.start)

    # ---- time

    def _run_for(self, length_ms: float) -> None:
        end_ms = self.world.time_ms + length_ms
        while (next_ms := self.world.next_time()) is not None and next_ms <= end_ms:
            self._step()
        self.world.time_ms = end_ms

    def _run_until(self, condition: Callable[[], bool], limit_ms: float, what: str) -> None:
        end_ms = self.world.time_ms + limit_ms
        while not condition():
            next_ms = self.world.next_time()
            if next_ms is None or next_ms > end_ms:
                self.notebook.fail(f"it did not come to pass that {what}")
                return
            self._step()

    def _step(self) -> None:
        self._events += 1
        if self._events > _MOST_EVENTS:
            raise RuntimeError("a schedule of endless events")
        self.world.step()
        self.machine.rest()


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


class _Listener(logging.Handler):
    """An exception that reached the log is one that nobody was prepared for, unless the disk was told to fail."""

    def __init__(self, notebook: Notebook, machine: Machine) -> None:
        super().__init__(logging.ERROR)
        self._notebook = notebook
        self._machine = machine

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        is_expected = isinstance(error, DiskFault | ApiError) or self._machine.is_gone()
        if error is not None and not is_expected:
            self._notebook.fail(f"{record.getMessage()}: {error!r}")
