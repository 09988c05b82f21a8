"""What the outputs of `pipeline.rounds` hold, and what they should."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from penstock.testing.fleet.patience import PATIENT
from penstock.testing.fleet.read_back import read_everything
from penstock.testing.history import Operation, Outcome, Send
from penstock.testing.history_check import Expectations, check
from proof.pipeline.driver import DEAD, OUTPUT, TABLE, database_of, hive_file_of

_TIMEOUT_S = 60.0
# One record in so many is no JSON, and belongs to the dead letters.
_BROKEN_EVERY = 10
_SHOWN = 3
# Kinds of anomalies by what they are called here.
_WRONG = {"lost": ("lost-write", "unseen"), "doubled": ("duplicate",), "strange": ("garbage-read",)}


@dataclass(frozen=True, slots=True)
class PipelineReport:
    seed: int
    kills: Mapping[str, int]
    records: int
    batches: int
    failures: Sequence[str]  # of drivers that nobody had killed; each was started again, as a supervisor would
    problems: Sequence[str]
    promise: str = "each record once in the topic, in Hive and in SQL"

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of the {victim}" for victim, count in sorted(self.kills.items()))
        verdict = self.promise if self.is_sound else "; ".join(self.problems)
        return (
            f"pipeline rounds: seed {self.seed}, {sum(self.kills.values())} kills ({kills}), {self.records} records in "
            f"{self.batches} batches, {len(self.failures)} failed queries started again: {verdict}"
        )


def encode(number: int) -> bytes:
    if number % _BROKEN_EVERY == 0:
        return b"broken %d" % number
    return json.dumps({"number": number, "bucket": number % 3}).encode()


def check_outputs(directory: Path, servers: str, count: int) -> list[str]:
    good = [number for number in range(count) if number % _BROKEN_EVERY]
    broken = range(0, count, _BROKEN_EVERY)
    letters = (value.removeprefix(b"broken ") for value in read_committed(servers, DEAD))
    differences = {
        "the topic": compare(good, map(int, read_committed(servers, OUTPUT))),
        "the Hive table": compare(good, json.loads(hive_file_of(directory).read_text())),
        "the SQL table": compare(good, _read_database(directory)),
        "the dead letters": compare(broken, map(int, letters)),
    }
    return [f"{place}: {difference}" for place, difference in differences.items() if difference]


def compare(expected: Iterable[int], numbers_read: Iterable[int]) -> str:
    """What is wrong; empty when each number is there once. An output is judged as a log in any order."""
    place = ("output", 0)
    history = [Operation(number, Outcome.OK, (Send(*place, number),)) for number in expected]
    anomalies = check(
        history, final={place: list(enumerate(numbers_read))}, expected=Expectations(is_complete=True)
    ).anomalies
    wrong = {
        name: {number for anomaly in anomalies if anomaly.kind in kinds and isinstance(number := anomaly.value, int)}
        for name, kinds in _WRONG.items()
    }
    return ", ".join(
        f"{len(numbers)} {name} ({', '.join(map(str, sorted(numbers)[:_SHOWN]))}...)"
        for name, numbers in wrong.items()
        if numbers
    )


def read_committed(servers: str, topic: str) -> list[bytes]:
    """All that a reader of committed records is shown up to the end, where a transaction left open would end it."""
    partitions = AdminClient({"bootstrap.servers": servers, **PATIENT}).list_topics(topic, _TIMEOUT_S).topics[topic]
    targets = [(topic, partition) for partition in partitions.partitions]
    return [message.value() or b"" for message in read_everything(servers, targets)]


def _read_database(directory: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(database_of(directory))) as connection:
        return [number for (number,) in connection.execute(f"SELECT number FROM {TABLE}")]
