"""Pipelines under kill -9: the broker, Spark's workers and the driver are killed while records flow.

    python -m proof pipeline --rounds 30 --seed 7 [--brokers 3] [--cluster] [--streams] [--keep DIRECTORY]

A feeder writes numbered records, one in ten of them no JSON. A pipeline in a process of its own copies them to a topic,
a Hive table and an SQL table, and the others to a topic of dead letters. With --streams the process runs joins and
counts of streams instead (see `streams_driver`). Each round kills one of

    broker    and starts it again on the same port and data, at once or after a second; the query has to wait for it.
              With --brokers 3 it is any one of a cluster, and the query goes on with the others
    worker    one of Spark's Python workers; with --cluster, where executors are processes of their own, the executor's
              JVM
    workers   all of Spark's Python workers with the process that makes them; with --cluster as `worker`
    driver    Python and JVM together; started again it must finish what it had begun

A driver takes seconds to start, so one kill in fifteen is the driver's, and the others are shared evenly between broker
and workers. Half of a victim's kills wait for the end of a batch, the others come whatever was reached. The last is
always the driver's: the one that follows finishes what is there and ends. Then each record must be in each output
exactly once. A query that fails without having been killed is started again and counted.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.fleet.patience import PATIENT
from penstock.testing.processes import ServerProcessError
from proof.frame import Say, Task, say_nothing
from proof.pipeline.brokers import Broker, make_penstock
from proof.pipeline.check import PipelineReport
from proof.pipeline.driver import LOCAL_MASTER, checkpoint_of
from proof.pipeline.processes import DriverProcess, kill_process
from proof.pipeline.spark_cluster import SparkCluster
from proof.pipeline.work import PipelineWork, StreamsWork, Work

_DRIVERS_AMONG = 15
# Between kills: from the middle of a batch to a few batches later.
_UPTIME_S = (0.05, 1.0)
_DOWNTIME_S = (0.0, 1.0)
_FEED_EVERY_S = 0.1
_RECORDS_AT_ONCE = 20
# On a busy machine; a driver that gets nowhere for so long is a finding.
_DEADLINE_S = 240.0
_MOST_DRAINS = 3
# A query that fails so often without having been killed is broken.
_MOST_FAILURES = 10


class Kill(NamedTuple):
    victim: str
    is_after_batch: bool  # else it comes whatever was reached since the last kill


def plan_kills(count: int, random_numbers: random.Random) -> list[Kill]:
    """In the order in which they come. Of four workers, each moment meets one worker and all."""
    drivers = max(1, count // _DRIVERS_AMONG)
    brokers = (count - drivers) // 2
    workers = count - drivers - brokers
    kills = [
        *_at_either_moment(["driver"] * drivers, random_numbers),
        *_at_either_moment(["broker"] * brokers, random_numbers),
        *_at_either_moment([("worker", "workers")[number % 2] for number in range(workers)], random_numbers),
    ]
    last = kills.pop(0)
    random_numbers.shuffle(kills)
    return [*kills, last]


def _at_either_moment(victims: Sequence[str], random_numbers: random.Random) -> list[Kill]:
    first = random_numbers.randrange(2)
    return [Kill(victim, (first + number + number // 2) % 2 == 0) for number, victim in enumerate(victims)]


@dataclass
class PipelineRounds:
    directory: Path
    kills: int
    seed: int
    uses_cluster: bool = False
    say: Say = say_nothing
    brokers: int = 1
    make_broker: Callable[[Path], Broker] | None = None  # another broker than ours
    work: Work = field(default_factory=PipelineWork)
    _failures: list[str] = field(default_factory=list, init=False)
    _problems: list[str] = field(default_factory=list, init=False)
    _killed: Counter[str] = field(default_factory=Counter, init=False)
    _written: int = field(default=0, init=False)
    _cluster: SparkCluster | None = field(default=None, init=False)

    def run(self) -> PipelineReport:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._random = random.Random(self.seed)
        with ExitStack() as stack:
            self._broker = stack.enter_context(self._make_broker(self.directory / "broker"))
            servers = self._broker.bootstrap_servers
            _create_topics(servers, self.work.topics)
            if self.uses_cluster:
                self._cluster = stack.enter_context(SparkCluster(self.directory))
            master = self._cluster.url if self._cluster is not None else LOCAL_MASTER
            arguments = (str(self.directory), servers, master)
            self._driver = DriverProcess(self.work.driver, arguments, self.directory / "driver.log")
            stack.callback(self._driver.close)
            self._feeder = Producer({"bootstrap.servers": servers, **PATIENT, "enable.idempotence": True})
            self._driver.start()
            for number, kill in enumerate(plan_kills(self.kills, self._random), 1):
                self._kill_some_time(number, kill)
            self._drain()
            if not self._problems:
                self._problems += self.work.check(self.directory, servers, self._written)
        batches = self._finished_batches()
        return PipelineReport(
            self.seed, self._killed, self._written, batches, self._failures, self._problems, self.work.promise
        )

    def _make_broker(self, directory: Path) -> Broker:
        if self.make_broker is not None:
            return self.make_broker(directory)
        # Numbers of its own: which broker is killed does not change when the others come.
        return make_penstock(directory, self.brokers, random.Random(self.seed))

    # ---------------------------------------------------------------------------------------------------- killing

    def _kill_some_time(self, number: int, kill: Kill) -> None:
        victim, reached = kill.victim, self._finished_batches()
        if kill.is_after_batch:
            self._feed_until(lambda: self._finished_batches() > reached)
        self._feed_for(self._random.uniform(*_UPTIME_S))
        self._restart_failed_driver()
        detail = self._kill(victim)
        self._killed[victim] += 1
        self.say(f"kill {number} of {self.kills}: {victim}{detail} (batch {self._finished_batches()})")
        if victim == "driver" and number < self.kills:
            self._driver.start()

    def _kill(self, victim: str) -> str:
        if victim == "driver":
            self._driver.kill()
            return ""
        if victim in ("worker", "workers"):
            return self._kill_workers(are_all=victim == "workers")
        self._broker.kill()
        self._feed_for(self._random.choice((0.0, self._random.uniform(*_DOWNTIME_S))))
        self._broker.start()
        return ""

    def _kill_workers(self, *, are_all: bool) -> str:
        executors = self._executors()
        if executors:
            kill_process(self._random.choice(executors))
            return ", the executor"
        workers: list[int] = []  # as seen at one look: the next may find none, since those of a small batch end soon

        def see_workers() -> bool:
            workers[:] = [process.pid for process in self._driver.workers()]
            return bool(workers)

        self._feed_until(see_workers)
        if not workers:
            return ", none came"
        chosen = workers if are_all else [self._random.choice(workers[:-1] or workers)]
        return f", {sum(map(kill_process, chosen))} of {len(workers)}"

    def _executors(self) -> list[int]:
        return [process.pid for process in self._cluster.executors()] if self._cluster is not None else []

    # ---------------------------------------------------------------------------------------------------- the driver

    def _restart_failed_driver(self) -> None:
        if not self._driver.is_running:
            self._note_failure()
            self._driver.start()

    def _note_failure(self) -> None:
        self._failures.append(self._driver.last_words())
        self.say(f"the driver ended: {self._failures[-1]}")
        if len(self._failures) > _MOST_FAILURES + self.kills // _DRIVERS_AMONG:
            raise ServerProcessError(f"the driver fails again and again; the last time: {self._failures[-1]}")

    def _drain(self) -> None:
        if self._feeder.flush(_DEADLINE_S):
            self._problems.append("the feeder could not write everything")
        for _ in range(_MOST_DRAINS):
            self._driver.start("--once")
            ended = self._driver.wait(_DEADLINE_S)
            if ended == 0:
                return
            if ended is None:
                self._driver.kill()
            self._note_failure()
        self._problems.append(f"what is left was not done in {_MOST_DRAINS} tries")

    def _finished_batches(self) -> int:
        """Of all queries."""
        found = checkpoint_of(self.directory).glob("*/commits")
        numbers = [[int(each.name) for each in commits.iterdir() if each.name.isdecimal()] for commits in found]
        return sum(max(each, default=-1) + 1 for each in numbers)

    # ---------------------------------------------------------------------------------------------------- feeding

    def _feed_until(self, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not is_enough():
            if time.monotonic() > deadline:
                self._problems.append(f"the driver got nowhere for {_DEADLINE_S:.0f} s: {self._driver.last_words()}")
                return
            self._restart_failed_driver()
            self._feed_for(_FEED_EVERY_S)

    def _feed_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for _ in range(_RECORDS_AT_ONCE):
                self._feeder.produce(**self.work.record(self._written), on_delivery=self._note_delivery)
                self._written += 1
            self._feeder.poll(0)
            time.sleep(min(_FEED_EVERY_S, max(0.0, deadline - time.monotonic())))

    def _note_delivery(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._problems.append(f"the feeder failed: {error}")


def _create_topics(servers: str, wanted: Mapping[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **PATIENT})
    topics = [NewTopic(name, partitions) for name, partitions in wanted.items()]
    for future in admin.create_topics(topics).values():
        future.result(_DEADLINE_S)


def run(task: Task) -> PipelineReport:
    given = task.options
    rounds = PipelineRounds(task.scratch, task.rounds, task.seed, given["cluster"], task.say, given["brokers"])
    if given.get("streams"):
        rounds.work = StreamsWork()
    return rounds.run()
