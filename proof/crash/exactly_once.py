"""Exactly once under kill -9: records are copied in transactions while broker and copier are killed.

    python -m proof exactly-once --rounds 100 --seed 7

A feeder writes numbered records to the input. The copier, a process of its own, reads them, writes each to the same
partition of the output and commits what it has read in the same transaction; now and then it aborts. Each round kills
the broker, the copier, or both, at a random moment. At the end, a reader of committed records must find the input in
the output: each record, once, in order, and no transaction left open behind them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.fleet.patience import PATIENT
from penstock.testing.history import HistoryReport, Operation, Outcome, Send, Where
from penstock.testing.history_check import Expectations, check
from penstock.testing.processes import BrokerProcess
from proof.crash import copier
from proof.crash.copier import INPUT, OUTPUT, PARTITIONS
from proof.frame import Say, Task, say_nothing
from proof.search_path import search_path

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
    failures: tuple[str, ...]
    copies: HistoryReport

    @property
    def is_sound(self) -> bool:
        return self.copies.is_sound and not self.failures

    def __str__(self) -> str:
        problems = self.failures if self.copies.is_sound else (*self.failures, str(self.copies))
        verdict = "; ".join(problems) or "each record once"
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
        copies = {
            (OUTPUT, partition): _read_copy(broker.bootstrap_servers, partition, len(written))
            for partition, written in enumerate(self._written)
        }
        judged = judge_copies(self._written, copies)
        return ExactlyOnceReport(self.seed, self.rounds, records, tuple(self._failures), judged)

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
            environment = os.environ | {"PYTHONPATH": search_path()}
            self._copier = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def _kill_copier(self) -> None:
        if self._copier is not None:
            self._copier.kill()
            self._copier.wait()
            self._copier = None


def judge_copies(
    written: Sequence[Sequence[bytes]], read: Mapping[Where, Sequence[tuple[int, bytes]]]
) -> HistoryReport:
    """Each record is there once and in order. The copy is judged as if the feeder had written to it."""
    history = [
        Operation(partition, Outcome.OK, tuple(Send(OUTPUT, partition, value) for value in values))
        for partition, values in enumerate(written)
    ]
    return check(history, final=read, expected=Expectations(ordered=range(len(written)), is_complete=True))


def _read_copy(servers: str, partition: int, count: int) -> list[tuple[int, bytes]]:
    """What a reader of committed records finds until the copier has caught up, and a moment longer."""
    consumer = Consumer(
        {"bootstrap.servers": servers, **PATIENT, "group.id": "exactly-once-check", "isolation.level": "read_committed"}
    )
    records: list[tuple[int, bytes]] = []

    def take(timeout_s: float) -> None:
        messages = [message for message in consumer.consume(500, timeout_s) if message.error() is None]
        records.extend((message.offset() or 0, message.value() or b"") for message in messages)

    try:
        consumer.assign([TopicPartition(OUTPUT, partition, 0)])
        deadline = time.monotonic() + _DEADLINE_S
        while len(records) < count and time.monotonic() < deadline:
            take(0.2)
        take(0.5)
    finally:
        consumer.close()
    return records


def run(task: Task) -> ExactlyOnceReport:
    return ExactlyOnceRounds(task.scratch / "data", task.rounds, task.seed, say=task.say).run()
