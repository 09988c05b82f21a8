"""Rounds of kills: one broker of three is killed, comes back, and then the next one, while applications begin.

    python -m proof kills --rounds 30 --seed 7

Applications make topics with a replica on each broker, read in groups that nobody has seen before, write in first
transactions, and copy in transactions that go on (`applications`). They get ready first, and begin after the first
broker is killed, so the internal topics are made while one of three brokers is away. What the applications are told,
and how long they wait, is the result. `tools/apache_kafka/kills.py` has the same rounds on Kafka, with Java's client
beside librdkafka, and compares the two.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.local_cluster.cluster import Cluster
from proof.frame import Say, Task, say_nothing
from proof.kills.applications import REPLICAS, find_internal_topics, librdkafka_applications, prepare
from proof.kills.journal import Journal

# A broker is away for the first part of it.
PERIOD_S, AWAY_S = 20.0, 8.0
INTERNAL_TOPICS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


class Killable(Protocol):
    def kill(self) -> None: ...

    def spawn(self) -> None: ...

    def wait_until_ready(self) -> None: ...


class Servers(Protocol):
    """Three brokers that run."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def brokers(self) -> Mapping[int, Killable]: ...


class Applying(Protocol):
    """An application that runs until it is asked to end.

    `get_ready` comes while all brokers are there, so that the start of a program is no part of what its application
    waits for. It asks for no group and for no transaction: these make the internal topics.
    """

    def get_ready(self) -> None: ...

    def start(self) -> None: ...

    def end(self) -> None: ...

    def finish(self) -> None: ...


MakeServers = Callable[[Path], AbstractContextManager[Servers]]
MakeApplications = Callable[[str, Journal], Sequence[Applying]]


@dataclass
class KillReport:
    seed: int
    stage: str
    kills: int = 0
    journal: Journal = field(default_factory=Journal)

    @property
    def is_sound(self) -> bool:
        """Every application has got somewhere, and nobody hangs. Errors and waits are compared, not judged."""
        return self.kills > 0 and bool(self.journal.waits) and not self.journal.unfinished

    def __str__(self) -> str:
        return "\n  ".join(
            [f"kill rounds: seed={self.seed} on {self.stage}, kills={self.kills}", *self.journal.lines()]
        )


@dataclass
class KillRounds:
    scratch: Path
    rounds: int
    seed: int
    stage: str
    make_servers: MakeServers
    make_applications: MakeApplications = librdkafka_applications
    period_s: float = PERIOD_S
    away_s: float = AWAY_S
    say: Say = say_nothing

    def run(self) -> KillReport:
        report = KillReport(self.seed, self.stage)
        order = random.Random(self.seed)
        with self.make_servers(self.scratch / "servers") as servers:
            prepare(servers.bootstrap_servers)
            victims = sorted(servers.brokers)
            order.shuffle(victims)
            applications = self.make_applications(servers.bootstrap_servers, report.journal)
            for each in applications:
                each.get_ready()
            made = find_internal_topics(servers.bootstrap_servers)
            assert not made, f"applications that got ready made {made}, which are to be made while a broker is away"
            for number in range(self.rounds):
                self._play(servers, victims[number % len(victims)], report.journal, [] if number else applications)
                report.kills += 1
            for each in applications:
                each.end()
            for each in applications:
                each.finish()
        return report

    def _play(self, servers: Servers, victim: int, journal: Journal, beginning: Sequence[Applying]) -> None:
        killed_at = time.monotonic()
        broker = servers.brokers[victim]
        broker.kill()
        journal.note_kill()
        for each in beginning:
            each.start()
        time.sleep(max(0.0, killed_at + self.away_s - time.monotonic()))
        broker.spawn()
        broker.wait_until_ready()
        done = sum(map(len, journal.waits.values()))
        self.say(f"broker {victim} was killed, and is back after {time.monotonic() - killed_at:.1f} s; done: {done}")
        time.sleep(max(0.0, killed_at + self.period_s - time.monotonic()))


@contextmanager
def penstock_servers(directory: Path) -> Iterator[Servers]:
    cluster = Cluster(REPLICAS, directory, INTERNAL_TOPICS)
    cluster.start()
    try:
        yield _PenstockServers(cluster)
    finally:
        cluster.abandon()


class _PenstockServers:
    def __init__(self, cluster: Cluster) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self.brokers = {broker.node_id: broker for broker in cluster.brokers}


def run(task: Task) -> KillReport:
    return KillRounds(task.scratch, task.rounds, task.seed, "Penstock", penstock_servers, say=task.say).run()
