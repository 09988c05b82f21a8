"""Exactly once under kill -9: records are copied in transactions while broker and copier are killed.

    python -m penstock.proof exactly-once --rounds 100 --seed 7

A feeder writes numbered records to the input. The copier, a process of its own, reads them, writes each to the same
partition of the output and commits what it has read in the same transaction; now and then it aborts. Each round kills
the broker, the copier, or both, at a random moment. At the end, a reader of committed records must find the input in
the output: each record, once, in order, and no transaction left open behind them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.proof.crash import copier
from penstock.proof.crash.clients import PATIENT
from penstock.proof.crash.copier import INPUT, OUTPUT, PARTITIONS
from penstock.proof.frame import Say, Task, say_nothing
from penstock.testing.processes import BrokerProcess

_UPTIME_S = (0.1, 0.9)
_RECORDS_PER_ROUND = 150
_DEADLINE_S = 60.0
_KILLS = (("broker",), ("broker",), ("copier",), ("broker", "copier"))
_BROKER_CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "replica.high.watermark.checkpoint.interval.ms": "50",
}
_TOPIC_CONFIG = {"segment.bytes": "1048576"}


class ExactlyOnceReport(NamedTuple):
    seed: int
    rounds: int
    records: int
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        verdict = "each record once" if self.is_sound else "; ".join(self.problems)
        return f"exactly once: seed {self.seed}, {self.rounds} rounds, {self.records} records: {verdict}"


@dataclass
class ExactlyOnceRounds:
    data_dir: Path
    rounds: int
    seed: int
    config: Mapping[str, str] = field(default_factory=dict)
    say: Say = say_nothing

    def run(self) -> ExactlyOnceReport:
        self._random = random.Random(self.seed)
        self._broker = BrokerProcess(self.data_dir, config={**_BROKER_CONFIG, **self.config})
        self._copier: subprocess.Popen[bytes] | None = None
        self._written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._failures: list[str] = []
        try:
            with self._broker as broker:
                return self._run(broker)
        finally:
            self._kill_copier()

    def _run(self, broker: BrokerProcess) -> ExactlyOnceReport:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **PATIENT})
        topics = [NewTopic(name, PARTITIONS, 1, config=_TOPIC_CONFIG) for name in (INPUT, OUTPUT)]
        for future in admin.create_topics(topics).values():
            future.result(_DEADLINE_S)
        feeder = Producer({"bootstrap.servers": broker.bootstrap_servers, **PATIENT, "enable.idempotence": True})
        self._start_copier()
        for number in range(self.rounds):
            self._feed(feeder)
            time.sleep(self._random.uniform(*_UPTIME_S))
            victims = self._random.choice(_KILLS)
            self.say(f"round {number + 1}: kill the {' and the '.join(victims)}")
            if "copier" in victims:
                self._kill_copier()
            if "broker" in victims:
                broker.kill()
                broker.start()
            if "copier" in victims:
                self._start_copier()
        if feeder.flush(_DEADLINE_S):
            self._failures.append("the feeder could not write everything")
        records = sum(map(len, self._written))
        return ExactlyOnceReport(self.seed, self.rounds, records, (*self._failures, *self._check(broker)))

    def _feed(self, feeder: Producer) -> None:
        def report(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                self._failures.append(f"the feeder failed: {error}")

        for _ in range(_RECORDS_PER_ROUND):
            partition = self._random.randrange(PARTITIONS)
            value = b"%d/%d" % (partition, len(self._written[partition]))
            self._written[partition].append(value)
            feeder.produce(INPUT, value, partition=partition, on_delivery=report)
        feeder.poll(0)

    def _start_copier(self) -> None:
        seed = str(self._random.randrange(2**32))
        command = [sys.executable, "-m", copier.__name__, self._broker.bootstrap_servers, seed]
        with self._broker.log_path.with_name("copier.log").open("ab") as log:
            self._copier = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _kill_copier(self) -> None:
        if self._copier is not None:
            self._copier.kill()
            self._copier.wait()
            self._copier = None

    # ---------------------------------------------------------------------------------------- the check

    def _check(self, broker: BrokerProcess) -> list[str]:
        problems = []
        for partition, written in enumerate(self._written):
            found = _read_committed(broker.bootstrap_servers, partition, len(written))
            if found != written:
                problems.append(f"partition {partition}: {_difference(written, found)}")
        return problems


def _read_committed(servers: str, partition: int, count: int) -> list[bytes]:
    """What a reader of committed records finds until the copier has caught up, and a moment longer."""
    consumer = Consumer(
        {"bootstrap.servers": servers, **PATIENT, "group.id": "exactly-once-check", "isolation.level": "read_committed"}
    )
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(OUTPUT, partition, 0)])
        deadline = time.monotonic() + _DEADLINE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [message.value() or b"" for message in consumer.consume(500, 0.2) if message.error() is None]
        found += [message.value() or b"" for message in consumer.consume(500, 0.5) if message.error() is None]
    finally:
        consumer.close()
    return found


def _difference(written: list[bytes], found: list[bytes]) -> str:
    lost, strange = set(written) - set(found), set(found) - set(written)
    doubled = len(found) - len(set(found))
    first = next((index for index, pair in enumerate(zip(written, found, strict=False)) if pair[0] != pair[1]), None)
    return (
        f"{len(written)} written, {len(found)} read: {len(lost)} lost, {doubled} doubled, {len(strange)} strange, "
        f"first difference at {first}"
    )


def run(task: Task) -> ExactlyOnceReport:
    return ExactlyOnceRounds(task.scratch / "data", task.rounds, task.seed, say=task.say).run()
