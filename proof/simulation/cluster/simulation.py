"""One schedule of several brokers, from its plan to its verdict."""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.cluster.store.memory import MemoryTree
from penstock.core.config.broker_config import BrokerConfig
from proof.simulation.checks import has_open_transactions
from proof.simulation.client import Client, Setting
from proof.simulation.cluster.checks import check_cluster, check_no_strays, describe, is_whole, know_the_same
from proof.simulation.cluster.faults import Faults
from proof.simulation.cluster.founding import Founder, Prober
from proof.simulation.cluster.network import Network, host_of
from proof.simulation.cluster.stage import Stage, Surface
from proof.simulation.cluster.store import SharedStoreLink
from proof.simulation.cluster.watch import Watch
from proof.simulation.machine import CONFIG, InFront, Machine, Place
from proof.simulation.notebook import Notebook
from proof.simulation.plan import Plan
from proof.simulation.schedule import CLIENTS_LIMIT_MS, FAULTS, START_LIMIT_MS, ScheduleRun, Verdict, listening
from proof.simulation.world import MachineClock, World, owner_of

# Clients try for longer than a leader's session lasts.
_PATIENCE = 10
# More than a session, a lost connection and an election take together.
_HEALING_LIMIT_MS = 30_000
_QUIET_MS = 2_500
_SETTLING_LIMIT_MS = 12_000
_CLOCK_REPAIR_MS = 4 * 3_600_000
_CLUSTER = {
    "offsets.topic.replication.factor": "{factor}",
    "transaction.state.log.replication.factor": "{factor}",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "{factor}",
    "min.insync.replicas": "2",
    # Short, so that a throttled replica that comes back is in sync before a schedule ends.
    "replication.quota.window.num": "2",
    # Longer than any replica is away: one that misses a tombstone or a marker keeps what it removed, in Kafka as well.
    "log.cleaner.delete.retention.ms": "90000",
}
_NO_LIMIT = str(2**63 - 1)
# Each schedule has one of each. A member that lags leaves soon or late; one that comes back catches up in one answer or
# batch by batch, and perhaps throttled.
_REPLICATION: dict[str, tuple[str, ...]] = {
    "replica.lag.time.max.ms": ("600", "600", "2000"),
    "replica.fetch.wait.max.ms": ("100", "400"),
    "replica.fetch.backoff.ms": ("20", "100"),
    "replica.fetch.max.bytes": ("1", "1048576"),
    "replica.fetch.response.max.bytes": ("1", "10485760"),
    "leader.replication.throttled.rate": (_NO_LIMIT, _NO_LIMIT, "5000", "20000"),
    "follower.replication.throttled.rate": (_NO_LIMIT, _NO_LIMIT, "5000", "20000"),
}
_PAUSES_MS = (0.0, 1.0, 10.0, 50.0, 250.0)
_MOST_REPLICAS = 3


class Cast(NamedTuple):
    """Who takes part in a schedule."""

    plan: Plan
    setting: Setting
    faults: Faults


def simulate_cluster(plan: Plan, planted: InFront | None = None) -> Verdict:
    """`planted` is a bug in front of every broker, to see whether it is found."""
    cast = gather(plan, planted)
    with listening(cast.setting.notebook, cast.setting.machines):
        ClusterSimulation(cast).run()
    return Verdict.of(plan, cast.setting.notebook)


def gather(plan: Plan, planted: InFront | None = None) -> Cast:
    world = World()
    notebook = Notebook(world)
    network = Network(world, random.Random(plan.seed * 7 + 1))
    surface = Surface(network, [], [])
    machines: list[Machine] = []
    setting = Setting(world, machines, notebook, patience=_PATIENCE, pauses_ms=_PAUSES_MS)
    stage = Stage(setting, surface, random.Random(plan.seed * 7 + 3))
    faults = Faults(stage)
    setting.is_cut_off, setting.retire = stage.isolated.__contains__, faults.retire
    tree = MemoryTree()
    chance = random.Random(plan.seed * 7 + 9)
    replication = {key: chance.choice(values) for key, values in _REPLICATION.items()}
    for place in range(plan.brokers):
        clock = MachineClock(world)
        link = SharedStoreLink(world, tree, owner_of(place), lambda action, place=place: machines[place].enter(action))  # type: ignore[misc]
        surface.clocks.append(clock)
        surface.links.append(link)
        where = Place(
            _configure(place, plan.brokers, replication),
            clock,
            link,
            f"broker {place}",
            owner_of(place),
            functools.partial(faults.process_ended, place),
            network.wires_of(place),
            functools.partial(network.port_closed, place),
            planted,
        )
        machines.append(Machine(world, where, random.Random(plan.seed * 100 + place), notebook))
    network.machines = machines
    return Cast(plan, setting, faults)


def _configure(place: int, count: int, replication: dict[str, str]) -> BrokerConfig:
    own = {"node.id": str(place), "listeners": f"PLAINTEXT://{host_of(place)}:9092"}
    shared = {key: value.format(factor=min(count, _MOST_REPLICAS)) for key, value in _CLUSTER.items()}
    return BrokerConfig.parse(CONFIG | shared | replication | own)


class ClusterSimulation(ScheduleRun):
    def __init__(self, cast: Cast) -> None:
        super().__init__(cast.plan, cast.setting)
        self._machines = cast.setting.machines
        self._faults = cast.faults
        self._watch = Watch(self._machines, self.world, self.notebook, cast.faults.note_image)

    def run(self) -> None:
        self.found()
        clients = self.invite()
        start_ms = self.world.time_ms
        for fault in self.plan.faults:
            self.world.at(start_ms + fault.at_ms, FAULTS, functools.partial(self._faults.strike, fault))
        for client in clients:
            client.start()
        self.run_for(self.plan.duration_ms)
        self.finish(clients)

    def found(self) -> None:
        self.notebook.note("plan", repr(self.plan))
        for machine in self._machines:
            machine.start()
        self.wait_until_whole("the brokers come together")
        self.run_script(Founder(self.free_number(0), "founder", self.setting, self.plan.seed), "topics are made")

    def finish(self, clients: list[Client]) -> None:
        """What must hold of a cluster whatever was done to it."""
        self._come_to_rest(clients)
        self.run_script(
            Prober(self.free_number(1), "prober", self.setting, self.plan.seed), "all partitions take writes"
        )
        self.audit()
        self.wait_until_whole("all replicas are in sync after the last writes")
        self.run_for(_QUIET_MS)
        # Leaders go back to their brokers meanwhile. A follower whose fetch waits then hears of it later than the
        # shortest lag that a schedule has, and leaves the in-sync set for a moment.
        self.wait_until_whole("leaders are balanced")
        # A coordinator may have written a moment ago, as when a member's session ended.
        self.run_until(lambda: know_the_same(self.brokers()), _HEALING_LIMIT_MS, "followers know the high watermarks")
        brokers = self.brokers()
        if len(brokers) == len(self._machines):
            check_cluster(brokers, self.notebook, self.plan.mode)
            check_no_strays(self._machines, self.notebook)
        for machine in self._machines:
            self.stop(machine)

    def step(self) -> None:
        super().step()
        self._watch.look()

    # ---- phases

    def _come_to_rest(self, clients: list[Client]) -> None:
        """No faults any more, clients finish what they do, and what nobody finishes times out."""
        self.setting.is_closing = True
        self._faults.stage.heal_all()
        self._wait_until_all_serve("all is healed")
        self._faults.stage.start_again_with_good_disks()
        self.wait_until_whole("all is healed")
        # No time-out waits for a clock that was set back. Not earlier: markers and tombstones go with it.
        self.world.wall_offset_ms += _CLOCK_REPAIR_MS
        self.run_until(lambda: all(client.is_done for client in clients), CLIENTS_LIMIT_MS, "clients finish")
        self.run_for(_QUIET_MS)
        end_ms = self.world.time_ms + _SETTLING_LIMIT_MS
        while self.world.time_ms < end_ms and any(has_open_transactions(broker) for broker in self.brokers()):
            self.run_for(_QUIET_MS)

    def wait_until_whole(self, what: str) -> None:
        self._wait_until_all_serve(what)
        self.run_until(self._is_whole, _HEALING_LIMIT_MS, what)
        if not self._is_whole():
            self.notebook.note("state", describe(self.brokers()))

    def _wait_until_all_serve(self, what: str) -> None:
        self.run_until(
            lambda: all(machine.is_serving for machine in self._machines),
            START_LIMIT_MS,
            f"every broker serves ({what})",
        )

    def _is_whole(self) -> bool:
        brokers = self.brokers()
        return len(brokers) == len(self._machines) and is_whole(brokers)

    def brokers(self) -> list[Broker]:
        return [machine.server.broker for machine in self._machines if machine.server is not None]

    def run_script(self, client: Client, what: str) -> None:
        client.start()
        self.run_until(lambda: client.is_done, CLIENTS_LIMIT_MS, what)

    def free_number(self, count: int) -> int:
        """One that no client and no auditor has."""
        return len(self.plan.clients) + 1 + count
