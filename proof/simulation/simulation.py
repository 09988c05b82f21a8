"""One schedule from its plan to its verdict."""

from __future__ import annotations

import random

from penstock.broker.topic_creation import create_topic
from proof.simulation.checks import check_all, has_open_transactions
from proof.simulation.client import Client, Setting
from proof.simulation.cluster.simulation import simulate_cluster
from proof.simulation.machine import End, Machine, alone
from proof.simulation.notebook import Notebook
from proof.simulation.plan import Fault, FaultKind, Mode, Plan
from proof.simulation.schedule import CLIENTS_LIMIT_MS, FAULTS, START_LIMIT_MS, ScheduleRun, Verdict, listening
from proof.simulation.topics import TOPICS
from proof.simulation.world import World

# So that every chore has its turn and tombstones go.
_QUIET_MS = 2_500
# More than a transaction's time-out, a marker's longest wait and a chore's interval together.
_SETTLING_LIMIT_MS = 9_000
_CLOCK_REPAIR_MS = 4 * 3_600_000
_RESTART_MS = (1, 80, 900)


def simulate(plan: Plan) -> Verdict:
    if plan.brokers > 1:
        return simulate_cluster(plan)
    world = World()
    notebook = Notebook(world, is_strict=plan.mode is not Mode.LOOSE)
    machine = Machine(world, alone(world, plan.mode), random.Random(plan.seed * 7 + 5), notebook)
    with listening(notebook, [machine]):
        _Simulation(plan, Setting(world, [machine], notebook)).run()
    return Verdict.of(plan, notebook)


class _Simulation(ScheduleRun):
    def __init__(self, plan: Plan, setting: Setting) -> None:
        super().__init__(plan, setting)
        self._chance = random.Random(plan.seed * 7 + 3)
        (self.machine,) = setting.machines

    def run(self) -> None:
        self.notebook.note("plan", repr(self.plan))
        self.machine.start()
        self._make_topics()
        clients = self.invite()
        start_ms = self.world.time_ms
        for fault in self.plan.faults:
            self.world.at(start_ms + fault.at_ms, FAULTS, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        for client in clients:
            client.start()
        self.run_for(self.plan.duration_ms)
        self._come_to_rest(clients)
        if self.plan.mode is not Mode.LOOSE:  # there, offsets may wait for ever for a transaction that was lost
            self.audit()
        self._restart_cleanly()
        if self.machine.server is not None:
            check_all(self.machine.server.broker, self.notebook, self.plan.mode)
        self.stop(self.machine)

    # ---- phases

    def _make_topics(self) -> None:
        self.run_until(lambda: self.machine.server is not None, START_LIMIT_MS, "the broker starts")
        done: list[str] = []

        async def make() -> None:
            assert self.machine.server is not None
            for name, partitions, configs in TOPICS:
                await create_topic(self.machine.server.broker.metadata, name, partitions, configs)
                done.append(name)

        self.machine.begin(make())
        self.run_until(lambda: len(done) == len(TOPICS), START_LIMIT_MS, "the topics are made")

    def _come_to_rest(self, clients: list[Client]) -> None:
        """No faults any more, clients finish what they do, and what nobody finishes times out."""
        self.setting.is_closing = True
        self.machine.heal()
        self.setting.slow_until_ms = 0
        self.world.wall_offset_ms += _CLOCK_REPAIR_MS  # no time-out waits for a clock that was set back
        self.machine.crash(End.KILL, 0, self._start_soon)
        self.run_until(lambda: self.machine.server is not None, START_LIMIT_MS, "the broker starts")
        self.run_until(lambda: all(client.is_done for client in clients), CLIENTS_LIMIT_MS, "clients finish")
        self.run_for(_QUIET_MS)
        end_ms = self.world.time_ms + _SETTLING_LIMIT_MS
        while self.world.time_ms < end_ms and not self._is_settled():
            self.run_for(_QUIET_MS)

    def _is_settled(self) -> bool:
        """No transaction is open, so nothing is to be waited for. `check_all` says what is wrong if one stays."""
        server = self.machine.server
        return server is not None and not has_open_transactions(server.broker)

    def _restart_cleanly(self) -> None:
        self.stop(self.machine)
        self.machine.start()
        self.run_until(lambda: self.machine.server is not None, START_LIMIT_MS, "the broker starts after a stop")

    # ---- faults

    def _strike(self, fault: Fault) -> None:
        if self.setting.is_closing:
            return
        self.notebook.note("fault", f"{fault.kind.value} {fault.length_ms}")
        match fault.kind:
            case FaultKind.KILL:
                self.machine.crash(End.KILL, fault.length_ms, self._start_soon)
            case FaultKind.POWER_CUT:
                self.machine.crash(End.POWER_CUT, fault.length_ms, self._start_after_power_cut)
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
        self.world.after(self._chance.choice(_RESTART_MS), FAULTS, self.machine.start)
