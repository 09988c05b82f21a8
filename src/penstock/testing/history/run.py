"""One run of real clients against a cluster, its history, and the verdict on it.

The seed decides what the clients do. Their timing depends on the machine and cannot be repeated, so only a saved
history shows a finding again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.patience import PATIENT
from penstock.testing.fleet.pollers import AssignedPoller, SubscribedPoller, target_of
from penstock.testing.fleet.read_back import STABLE_TIMEOUT_S, is_stable_soon, read_everything
from penstock.testing.fleet.recorder import Recorder
from penstock.testing.fleet.senders import BatchSender
from penstock.testing.fleet.transactions import TransactionalSender, Transformer
from penstock.testing.fleet.values import read_value
from penstock.testing.history import HistoryReport, Isolation, Operation, Where, read_history
from penstock.testing.history_check import check

_DAWDLE_CHANCE = 0.1
_JOIN_DEADLINE_S = 90.0
_ADMIN_DEADLINE_S = 30.0
_COORDINATOR_DEADLINE_S = 60.0
_SHOWN_ANOMALIES = 20


def leave_alone(seconds: float) -> Mapping[str, int]:
    """Lets the clients work, and disturbs nothing."""
    time.sleep(seconds)
    return {}


class HistoryRunReport(NamedTuple):
    """`problems` are the reasons why the run was not whole: a dead client, a final read that got stuck."""

    seed: int
    history: HistoryReport
    faults: Mapping[str, int] = {}
    problems: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        return self.history.is_sound and not self.problems

    def __str__(self) -> str:
        faults = "".join(f", {count} {name}s" for name, count in self.faults.items())
        problems = "".join(f"; {problem}" for problem in self.problems)
        return f"history: seed {self.seed}{faults}, {self.history}{problems}"


class SavedReport(NamedTuple):
    """The verdict about a history that was recorded before."""

    history: HistoryReport

    @property
    def is_sound(self) -> bool:
        return self.history.is_sound

    def __str__(self) -> str:
        return f"history: {self.history}"


@dataclass
class HistoryRun:
    """One run against any cluster. `disturb` takes the seconds that the run lasts, may harm the cluster meanwhile, and
    returns how often it did what.
    """

    servers: str
    seconds: float
    seed: int
    topics: int = 2
    partitions: int = 2
    disturb: Callable[[float], Mapping[str, int]] = leave_alone
    operations: list[Operation] = field(default_factory=list)
    final: dict[Where, list[tuple[int, Hashable]]] = field(default_factory=dict)

    def run(self) -> HistoryRunReport:
        recorder = Recorder()
        targets = self._create_topics()
        clients = self._make_clients(targets, recorder)
        for client in clients:
            client.start()
        try:
            injected = self.disturb(self.seconds)
        finally:
            for client in clients:
                client.end()
        deadline = time.monotonic() + _JOIN_DEADLINE_S
        for client in clients:
            client.join(max(0.0, deadline - time.monotonic()))
            if client.is_alive():
                recorder.problems.append(f"{client.name} did not end within {_JOIN_DEADLINE_S} s")
        self.final, stuck = read_to_the_end(self.servers, targets)
        self.operations = recorder.operations
        report = check(self.operations, final=self.final)
        return HistoryRunReport(self.seed, report, injected, (*recorder.problems, *stuck))

    def _create_topics(self) -> list[Where]:
        # New ones for each run: a value that no client sent in this run would be an anomaly.
        unique = f"{self.seed}-{os.getpid()}-{time.time_ns() // 1_000_000}"
        names = [f"history-{unique}-{number}" for number in range(self.topics)]
        admin = AdminClient({"bootstrap.servers": self.servers, **PATIENT})
        for future in admin.create_topics([NewTopic(name, self.partitions, 1) for name in names]).values():
            future.result(_ADMIN_DEADLINE_S)
        targets = [(name, partition) for name in names for partition in range(self.partitions)]
        wait_for_coordinators(self.servers, targets)
        return targets

    def _make_clients(self, targets: Sequence[Where], recorder: Recorder) -> list[Client]:
        setting = Setting(self.servers, targets, recorder, self.seed, _DAWDLE_CHANCE)
        unique = targets[0][0]
        clients: list[Client] = []
        for number, isolation in enumerate((Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)):

            def name(kind: str, number: int = number) -> str:
                return f"{unique}-{kind}-{number}"

            clients += [
                BatchSender(name("plain"), setting),
                TransactionalSender(name("transactional"), setting),
                Transformer(name("transformer"), setting, group=f"{unique}-transformers"),
                AssignedPoller(name("assigned"), setting, isolation=isolation),
                SubscribedPoller(
                    name("classic"), setting, group=f"{unique}-classic", protocol="classic", isolation=isolation
                ),
                SubscribedPoller(
                    name("consumer"),
                    setting,
                    group=f"{unique}-consumer",
                    protocol="consumer",
                    isolation=Isolation.READ_COMMITTED,
                ),
            ]
        return clients


def wait_for_coordinators(servers: str, targets: Sequence[Where]) -> None:
    """A new broker makes its internal topics at the first request for a coordinator; Kafka's take seconds, which would
    be missing from the run.
    """
    identity = f"{targets[0][0]}-first"
    common = {"bootstrap.servers": servers, **PATIENT}
    producer = Producer({**common, "transactional.id": identity})
    consumer = Consumer({**common, "group.id": identity})
    deadline = time.monotonic() + _COORDINATOR_DEADLINE_S
    try:
        for ask in (
            lambda: producer.init_transactions(_ADMIN_DEADLINE_S),
            lambda: consumer.committed([TopicPartition(*targets[0])], _ADMIN_DEADLINE_S),
        ):
            while True:
                try:
                    ask()
                    break
                except KafkaException:  # NOT_COORDINATOR among them, which librdkafka does not call retriable
                    if time.monotonic() > deadline:
                        raise
    finally:
        consumer.close()


# ---------------------------------------------------------------------------------------------------- the final read


def read_to_the_end(
    servers: str, targets: Sequence[Where]
) -> tuple[dict[Where, list[tuple[int, Hashable]]], list[str]]:
    """All committed records, once no transaction is open any more; and the reasons why they are incomplete."""
    records: dict[Where, list[tuple[int, Hashable]]] = {target: [] for target in targets}
    problems: list[str] = []
    try:
        if not is_stable_soon(servers, targets):
            problems.append(f"a transaction is still open {STABLE_TIMEOUT_S} s after the last sender ended")
        for message in read_everything(servers, targets):
            records[target_of(message)].append((message.offset() or 0, read_value(message)))
    except (KafkaException, TimeoutError, RuntimeError) as error:
        problems.append(f"the final read failed: {error}")
    return records, problems


# ---------------------------------------------------------------------------------------------------- saved histories


def check_file(path: Path) -> HistoryReport:
    history, final = read_history(path)
    return check(history, final=final)


def show_anomalies(history: HistoryReport) -> None:
    for anomaly in history.anomalies[:_SHOWN_ANOMALIES]:
        print(anomaly)
