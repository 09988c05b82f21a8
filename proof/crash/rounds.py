"""Crash rounds: kill -9 at random moments under load, start again, repeat; then check that nothing promised is missing.

    python -m proof crash --rounds 100 --seed 7

Idempotent and plain producers write (acks=all and acks=1), transactional ones commit, abort and vanish, one writes to a
topic that is compacted all the while; consumers follow, a group commits, topics are made. After the last round
everything is read back: see `crash.check` for what is compared. The seed decides when each
kill comes; it cannot decide what the machine did at that moment, so a run with the same seed is alike and not the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.patience import PATIENT
from penstock.testing.fleet.pollers import AssignedPoller
from penstock.testing.fleet.recorder import Recorder
from penstock.testing.fleet.transactions import Habits, TransactionalSender
from penstock.testing.history import Isolation
from penstock.testing.processes import BrokerProcess
from proof.crash.check import (
    CrashReport,
    check_compacted,
    check_streams,
    check_transactions,
    verify_files,
)
from proof.fleet.committer import Committer, read_committed
from proof.fleet.streams import STREAM_KINDS, StreamReader, StreamSender
from proof.frame import Say, Task, say_nothing
from proof.memory import peak_size
from proof.promises import check_last_commit, check_topics

_GROUP = "crash-committer"
# Enough that some are always young; few enough that a thousand rounds do not become a test of starting with many.
_MOST_TOPICS = 10
_DEADLINE_S = 60.0
_UPTIME_S = (0.05, 0.5)
_UPTIME_WHEN_STARTING_S = (0.0, 0.25)
# One start in five does not live to its end: recovery has to survive its own interruption.
_KILL_WHILE_STARTING = 0.2
# Small and frequent everything, so that kills meet rolls, checkpoints and index writes and not only appends.
_BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # The least there is, so that the cleaner has sealed segments of the coordinators' topics to work on.
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.05",
    "log.cleaner.dedupe.buffer.size": "1048576",
    "log.segment.delete.delay.ms": "1000",
    "penstock.segment.least.ms": "0",  # a broker of these rounds lives for a second or two
}
_TOPIC_CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "512"}
# Partitions, and when they reach the disk: some time, before each acknowledgement, every tenth of a second.
_TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "crash": (3, {}),
    "crash-flushed": (1, {"flush.messages": "1"}),
    "crash-timed": (1, {"flush.ms": "100"}),
}
# Apart from the others: markers and compaction leave gaps between offsets.
_TRANSACTIONAL = "crash-transactional"
_COMPACTED = "crash-compacted"
_OTHER_TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    _TRANSACTIONAL: (3, {}),
    _COMPACTED: (1, {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}),
}
_TRANSACTIONAL_TARGETS = [(_TRANSACTIONAL, index) for index in range(_OTHER_TOPICS[_TRANSACTIONAL][0])]
_COMPACTED_TARGET = (_COMPACTED, 0)
# librdkafka takes about a second to find its coordinator again: several, so that every kill meets some at work.
_TRANSACTIONAL_SENDERS = 6
_HABITS = Habits(commit=74, abort=20, leave=4, zombie=0, vanish=2, offsets=0.3, records=(2, 12), timeout_ms=60_000)
_INTERNAL_TARGETS = (("__consumer_offsets", 0), ("__transaction_state", 0), ("__transaction_state", 1))
# A broker of these rounds takes about a tenth of it.
_MAX_MEMORY_MB = 512


@dataclass
class CrashRounds:
    data_dir: Path
    rounds: int
    seed: int
    config: Mapping[str, str] = field(default_factory=dict)
    say: Say = say_nothing

    def run(self) -> CrashReport:
        report = CrashReport(self.seed)
        random_numbers = random.Random(self.seed)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        broker = BrokerProcess(self.data_dir, config={**_BROKER_CONFIG, **self.config})
        with broker:
            targets = self._create_targets(broker.bootstrap_servers)
            with Load(broker.bootstrap_servers, targets, self.seed) as load:
                while report.rounds < self.rounds:
                    self._crash(broker, random_numbers, report)
                    load.check_commits(report)
                    load.check_topics(report)
                    self.say(f"crash {report.rounds} of {self.rounds}")
            report.other += load.recorder.problems
            servers = broker.bootstrap_servers
            check_streams(servers, targets, load.senders, load.reader, report)
            check_transactions(servers, load.transactional, load.recorder.operations, report)
            check_compacted(servers, load.keyed, report)
            _note_memory(broker, report)
        if report.peak_memory_mb > _MAX_MEMORY_MB:
            report.other.append(f"the broker took {report.peak_memory_mb:.0f} MB")
        # Stopped cleanly by now, so every file must be whole, indexes and snapshots included.
        report.other += verify_files(
            self.data_dir / f"{topic}-{partition}"
            for topic, partition in (*targets, *_TRANSACTIONAL_TARGETS, _COMPACTED_TARGET, *_INTERNAL_TARGETS)
        )
        return report

    @staticmethod
    def _create_targets(servers: str) -> list[tuple[str, int]]:
        admin = AdminClient({"bootstrap.servers": servers, **PATIENT})
        for name, (partitions, config) in {**_TOPICS, **_OTHER_TOPICS}.items():
            topic = NewTopic(name, partitions, 1, config={**_TOPIC_CONFIG, **config})
            admin.create_topics([topic])[name].result(_DEADLINE_S)
        return [(name, index) for name, (partitions, _) in _TOPICS.items() for index in range(partitions)]

    def _crash(self, broker: BrokerProcess, random_numbers: random.Random, report: CrashReport) -> None:
        time.sleep(random_numbers.uniform(*_UPTIME_S))
        _note_memory(broker, report)
        broker.kill()
        report.rounds += 1
        while report.rounds < self.rounds and random_numbers.random() < _KILL_WHILE_STARTING:
            broker.spawn()
            time.sleep(random_numbers.uniform(*_UPTIME_WHEN_STARTING_S))
            broker.kill()
            report.rounds += 1
            report.kills_while_starting += 1
        broker.start()


class Load:
    """All clients of a run."""

    def __init__(self, servers: str, targets: list[tuple[str, int]], seed: int) -> None:
        self.servers = servers
        self.recorder = Recorder()

        def setting(targets: list[tuple[str, int]]) -> Setting:
            return Setting(servers, targets, self.recorder, seed)

        streams = [
            StreamSender(number, setting([_COMPACTED_TARGET] if kind.keys else targets), _DEADLINE_S)
            for number, kind in enumerate(STREAM_KINDS)
            if kind.batch > 1  # requests of one record each would take the machine from the others
        ]
        self.senders = [sender for sender in streams if not sender.log.kind.keys]
        (self.keyed,) = [sender for sender in streams if sender.log.kind.keys]
        self.reader = StreamReader("reader", setting(targets))
        self.committer = Committer(_GROUP, setting(targets))
        self.transactional = [
            TransactionalSender(f"transactional-{number}", setting(_TRANSACTIONAL_TARGETS), _HABITS)
            for number in range(_TRANSACTIONAL_SENDERS)
        ]
        self.committed_reader = AssignedPoller(
            "committed-reader", setting(_TRANSACTIONAL_TARGETS), isolation=Isolation.READ_COMMITTED, moves=False
        )
        self._admin = AdminClient({"bootstrap.servers": servers, **PATIENT})
        self._topics_made: list[str] = []
        self._topics_deleted: list[str] = []

    @property
    def _writing(self) -> list[Client]:
        return [*self.senders, *self.transactional, self.keyed, self.committer]

    @property
    def _reading(self) -> list[Client]:
        return [self.reader, self.committed_reader]

    def __enter__(self) -> Self:
        for thread in (*self._writing, *self._reading):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for clients in (self._writing, self._reading):
            for client in clients:
                client.end()
            for client in clients:
                client.join()

    def check_commits(self, report: CrashReport) -> None:
        """Nothing acknowledged is forgotten, and nothing comes from nowhere."""
        least, target = self.committer.acknowledged, self.committer.target
        committed = read_committed(self.servers, _GROUP, target, _DEADLINE_S)
        most = self.committer.attempted
        anomalies = check_last_commit(_GROUP, target, least, most, committed.offset)
        report.other += [f"after crash {report.rounds}: {anomaly}" for anomaly in anomalies]
        if committed.offset > 0 and committed.metadata != f"commit {committed.offset}":
            report.other.append(f"the metadata of offset {committed.offset} is {committed.metadata!r}")
        report.commits = least

    def check_topics(self, report: CrashReport) -> None:
        """Topics whose creation was acknowledged exist after the crash, and those whose deletion was do not; then the
        next one is made and the oldest deleted.
        """
        known = self._admin.list_topics(timeout=_DEADLINE_S).topics
        report.other += check_topics(self._topics_made, self._topics_deleted, known)
        name = f"made-{report.rounds}"
        try:
            self._admin.create_topics([NewTopic(name, 1, 1)])[name].result(_DEADLINE_S)
            self._topics_made.append(name)
            report.topics_made += 1
            if len(self._topics_made) > _MOST_TOPICS:
                oldest = self._topics_made.pop(0)
                self._admin.delete_topics([oldest])[oldest].result(_DEADLINE_S)
                self._topics_deleted.append(oldest)
        except KafkaException as error:
            report.other.append(f"making {name} or deleting the oldest topic failed: {error}")


def _note_memory(broker: BrokerProcess, report: CrashReport) -> None:
    """The most that this process of the broker has ever held."""
    report.peak_memory_mb = max(report.peak_memory_mb, peak_size(broker.pid) / 1024 / 1024)


def run(task: Task) -> CrashReport:
    return CrashRounds(task.scratch / "data", task.rounds, task.seed, say=task.say).run()
