"""Faults against three brokers and their ZooKeeper, one after another, under the load of real clients.

    python -m proof cluster --rounds 34 --seed 7
    python -m proof cluster --rounds 20 --fault kill-leader cut
    python -m proof cluster --rounds 34 --secure

The faults take turns in an order drawn from the seed, so that each comes as often as the others. After each fault all
replicas must be in sync again within a bound, and all clients must get on. After some faults the clients are stopped,
what they were promised is judged (`load`), and new ones begin on new topics. In the end the brokers are stopped, and
the replicas' files are compared. Each `upgrade` has a cluster of its own, after the others.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from penstock.processes.server_process import ServerProcessError
from proof.cluster import disks
from proof.cluster.builds import run_by
from proof.cluster.fault_context import Fault, FaultContext
from proof.cluster.faults import FAULTS, NEED_ENSEMBLE
from proof.cluster.leaders import LeaderWatch
from proof.cluster.load import Load
from proof.cluster.loopback import Loopback, LoopbackWiring
from proof.cluster.members import BROKERS, FaultCluster, Wiring, broker_name, store_name
from proof.cluster.network import Namespaces, can_make_namespaces
from proof.cluster.replicas import compare_replicas, find_directory
from proof.cluster.report import ClusterReport
from proof.cluster.upgrades import WHY_SKIPPED, make_builds, make_upgrade
from proof.crash.check import verify_files
from proof.frame import Say, Task, say_nothing

# A busy machine takes seconds to recover a log; a replica that never comes back takes for ever.
SYNC_BOUND_S = 60.0
_CALM_S = (0.3, 1.0)
# Faults until the clients are judged.
_EPISODE = 20
UPGRADE = "upgrade"
NAMES = (*FAULTS, UPGRADE)
# The build before the upgrade knows no security.
SECURED_NAMES = tuple(FAULTS)


@dataclass
class ClusterRounds:
    scratch: Path
    rounds: int
    seed: int
    faults: Sequence[str] = NAMES
    say: Say = say_nothing
    is_on_loopback: bool = field(default_factory=lambda: not can_make_namespaces())
    is_secured: bool = False  # brokers log in to each other over TLS; there is no `upgrade` then
    is_kept: bool = False  # the brokers' files, also when nothing is found

    def run(self) -> ClusterReport:
        report = ClusterReport(self.seed, (Loopback if self.is_on_loopback else Namespaces).name)
        plan = list(self._plan())
        upgrades = plan.count(UPGRADE)
        shared = [name for name in plan if name != UPGRADE]
        if shared:
            with self._cluster(report, self.scratch, 3 if NEED_ENSEMBLE & set(shared) else 1) as cluster:
                self._run(cluster, report, shared, FAULTS)
        if upgrades:
            self._run_upgrades(report, upgrades, first_episode=len(range(0, len(shared), _EPISODE)) + 1)
        return report

    def _run_upgrades(self, report: ClusterReport, count: int, first_episode: int) -> None:
        builds = make_builds(self.scratch / "builds")
        if builds is None:
            report.skipped[UPGRADE] = WHY_SKIPPED
            self.say(f"{UPGRADE} is left out: {WHY_SKIPPED}")
            return
        faults = {UPGRADE: make_upgrade(builds)}
        for number in range(count):
            directory = self.scratch / f"{UPGRADE}-{number + 1}"
            with self._cluster(report, directory, 1, run_by(builds.before)) as cluster:
                self._run(cluster, report, [UPGRADE], faults, first_episode + number)

    @contextmanager
    def _cluster(
        self, report: ClusterReport, directory: Path, stores: int, environment: Mapping[str, str] | None = None
    ) -> Iterator[FaultCluster]:
        """`environment` says which build the brokers run, where it is not this one. The brokers' files stay when a
        promise was broken, or when the rounds fail.
        """
        with ExitStack() as stack:
            wiring = self._make_wiring(stores)
            stack.callback(wiring.network.close)
            disk_kind = disks.LimitedDisk if self.is_on_loopback else disks.MountedDisk

            def make_disk(directory: Path) -> disks.Disk:
                disk = disk_kind(directory)

                def close(kind: type[BaseException] | None, _error: object, _trace: object) -> None:
                    disk.close(is_kept=self.is_kept or kind is not None or not report.is_sound)

                stack.push(close)
                return disk

            cluster = FaultCluster(directory, wiring, make_disk, is_secured=self.is_secured)
            for broker in cluster.brokers:
                broker.environment = environment or broker.environment
            stack.enter_context(cluster)
            kind = "brokers that log in to each other" if self.is_secured else "brokers"
            self.say(f"three {kind} and {stores} ZooKeeper on {wiring.network.name}")
            yield cluster

    def _make_wiring(self, stores: int) -> Wiring:
        names = [store_name(number) for number in range(1, stores + 1)]
        if self.is_on_loopback:
            return LoopbackWiring(Loopback(names), stores)
        disks.remove_leftovers()
        return Wiring(Namespaces([*(broker_name(node_id) for node_id in BROKERS), *names]), stores)

    def _run(
        self,
        cluster: FaultCluster,
        report: ClusterReport,
        plan: Sequence[str],
        faults: Mapping[str, Fault],
        first_episode: int = 1,
    ) -> None:
        watch = LeaderWatch([(broker.host, broker.port) for broker in cluster.brokers])
        watch.start()
        try:
            topics: list[str] = []
            for episode, start in enumerate(range(0, len(plan), _EPISODE), start=first_episode):
                for topic in topics:  # those of the last episode stay, and are looked at when the brokers are stopped
                    cluster.delete_topic(topic)
                part = [(name, faults[name]) for name in plan[start : start + _EPISODE]]
                topics = self._run_episode(cluster, report, episode, part)
        finally:
            watch.end()
        report.terms += len(watch.leaders)
        report.other += watch.problems
        self._compare_stopped(cluster, report)
        report.other += find_tracebacks(cluster)

    def _plan(self) -> Iterator[str]:
        random_numbers = random.Random(self.seed)
        left = self.rounds
        while left > 0 and self.faults:
            turn = random_numbers.sample(list(self.faults), min(left, len(self.faults)))
            left -= len(turn)
            yield from turn

    def _run_episode(
        self, cluster: FaultCluster, report: ClusterReport, episode: int, faults: Sequence[tuple[str, Fault]]
    ) -> list[str]:
        known = frozenset(report.all_findings())
        load = Load(cluster, self.seed, episode)
        random_numbers = random.Random(f"{self.seed} {episode}")
        with load:
            for name, fault in faults:
                time.sleep(random_numbers.uniform(*_CALM_S))
                context = FaultContext(cluster, random_numbers, load.topics, report.other)
                self._strike(report, name, fault, context)
                problem = load.why_not_moving()
                if problem:
                    report.other.append(f"after {name}: {problem}")
                load.check_commits(report, name)
        load.judge(report)
        self.say(f"episode {episode} is judged: {report.findings} findings so far")
        for text in report.all_findings():
            if text not in known:
                self.say(text)
        return load.topics

    def _strike(self, report: ClusterReport, name: str, fault: Fault, context: FaultContext) -> None:
        cluster = context.cluster
        begun = time.time()
        try:
            what = fault(context)
        except ServerProcessError as error:  # a broker that does not come back is a finding, and the rounds go on
            report.other.append(f"{name}: {error}")
            what = "a server did not come back"
            cluster.restore()
        report.faults[name] += 1
        mended = time.time()
        healed = time.monotonic()
        problem = cluster.wait_until_in_sync(SYNC_BOUND_S)
        took_s = time.monotonic() - healed
        report.slowest_sync_s = max(report.slowest_sync_s, took_s)
        if problem:
            report.other.append(f"{SYNC_BOUND_S:g} s after {name}: {problem}")
        text = f"{name}: {what}; in sync after {took_s:.1f} s{problem and ': ' + problem}"
        report.strikes.append(f"{_show_time(begun)} to {_show_time(mended)} {text}")
        self.say(f"{report.faults.total():4} {report.strikes[-1]}")

    @staticmethod
    def _compare_stopped(cluster: FaultCluster, report: ClusterReport) -> None:
        """What is left are the topics of the last episode, the internal ones, and the one that was made again."""
        report.other += [broker.unasked_end for broker in cluster.brokers if broker.unasked_end]
        assigned = {f"{topic}-{index}": state.replica_nodes for (topic, index), state in cluster.partitions().items()}
        try:
            cluster.stop()
        except ServerProcessError as error:
            report.other.append(str(error))
        looked_at: list[Path] = []
        for name, replicas in sorted(assigned.items()):
            directories = [find_directory(cluster.broker(node_id).log_dirs, name) for node_id in replicas]
            report.compared += 1
            report.other += compare_replicas(directories, are_closed=True)
            looked_at += [directory for directory in directories if directory.is_dir()]
        report.other += verify_files(looked_at)


def _show_time(moment: float) -> str:
    """As brokers write it into their logs."""
    return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment % 1 * 1000):03d}"


def find_tracebacks(cluster: FaultCluster) -> list[str]:
    """What nobody thought of."""
    found = []
    for broker in cluster.brokers:
        log = broker.read_log()
        count = log.count("Traceback (most recent call last)")
        if count:
            first = log.index("Traceback (most recent call last)")
            found.append(f"{broker.name} logged {count} tracebacks, first: {log[max(0, first - 300) : first + 1500]}")
    return found


def _raise_exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def run(task: Task) -> ClusterReport:
    names = SECURED_NAMES if task.options["secure"] else NAMES
    faults = task.options["fault"] or names
    unknown = [name for name in faults if name not in names]
    if unknown:
        sys.exit(f"no fault is called {', '.join(unknown)}; there are {', '.join(names)}")
    # So that a run which is told to end takes its namespaces with it.
    before = signal.signal(signal.SIGTERM, _raise_exit)
    try:
        rounds = ClusterRounds(task.scratch, task.rounds, task.seed, faults, task.say)
        rounds.is_on_loopback |= task.options["loopback"]
        rounds.is_secured = task.options["secure"]
        rounds.is_kept = task.is_kept
        return rounds.run()
    finally:
        signal.signal(signal.SIGTERM, before)
