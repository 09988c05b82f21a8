"""What a log holds after crashes against what was promised: lost, duplicated, reordered, changed, damaged."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from penstock.testing.crash_clients import PATIENT, Reader, Writer, decode_value, identify

_READ_TIMEOUT_S = 120.0
# A finding names examples; a log with a million lost records need not list them all.
_MOST_EXAMPLES = 5


@dataclass
class CrashReport:
    seed: int
    rounds: int = 0
    kills_while_starting: int = 0
    acknowledged: int = 0
    stored: int = 0
    commits: int = 0
    topics_made: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    retried: int = 0  # second copies of records of plain producers, which promise no better
    reordered: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.duplicated or self.reordered or self.other)

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.rounds} crashes, {self.kills_while_starting} of them while starting",
            f"{self.acknowledged:,} records acknowledged, {self.stored:,} stored",
            f"{self.commits:,} commits, {self.topics_made} topics made",
            f"lost {len(self.lost)}, duplicated {len(self.duplicated)}, reordered {len(self.reordered)}",
            f"other findings {len(self.other)}; {self.retried} second copies from plain producers",
        ]
        for name in ("lost", "duplicated", "reordered", "other"):
            found: list[str] = getattr(self, name)
            lines += [f"  {name}: {text}" for text in found[:_MOST_EXAMPLES]]
        return "\n".join(lines)


class TargetCheck:
    """One partition, record by record in the order of its offsets. Pure: it is given records and returns findings."""

    def __init__(self, where: tuple[str, int], writers: Sequence[Writer], served: Sequence[int]) -> None:
        self.where = where
        self.seen = [bytearray(len(writer.acknowledged)) for writer in writers]
        self._writers = writers
        self._served = served
        self._newest = [-1] * len(writers)
        self._next_offset = 0

    def add(self, offset: int, value: bytes | None, report: CrashReport) -> None:
        if offset != self._next_offset:
            report.other.append(f"{self.where}: offset {offset} follows {self._next_offset - 1}")
        self._next_offset = offset + 1
        try:
            writer, number = decode_value(value)
            seen = self.seen[writer]
            is_known = bool(seen[number])
        except (ValueError, IndexError) as error:
            report.other.append(f"{self.where}: offset {offset}: {error}")
            return
        report.stored += 1
        if offset < len(self._served) and self._served[offset] != identify(writer, number):
            report.other.append(f"{self.where}: offset {offset} was served with another record before")
        kind = self._writers[writer].kind
        if is_known and kind.is_idempotent:
            report.duplicated.append(f"{self.where}: offset {offset} holds record {number} of {kind.name} again")
        elif is_known:
            report.retried += 1
        elif number < self._newest[writer]:
            report.reordered.append(
                f"{self.where}: record {number} of {kind.name} comes after {self._newest[writer]}, at offset {offset}"
            )
        seen[number] = 1
        self._newest[writer] = max(self._newest[writer], number)

    def finish(self, report: CrashReport) -> None:
        if self._next_offset < len(self._served):
            report.other.append(
                f"{self.where}: ends at {self._next_offset}, and offset {len(self._served) - 1} was served before"
            )


def check_writers(writers: Sequence[Writer], checks: Iterable[TargetCheck], report: CrashReport) -> None:
    """Every acknowledged record must stand in some partition."""
    checks = list(checks)
    for index, writer in enumerate(writers):
        seen = [check.seen[index] for check in checks]
        report.acknowledged += sum(writer.acknowledged)
        for number, is_acknowledged in enumerate(writer.acknowledged):
            if is_acknowledged and not any(flags[number] for flags in seen):
                report.lost.append(f"record {number} of {writer.kind.name}")


def check_targets(servers: str, writers: Sequence[Writer], reader: Reader, report: CrashReport) -> None:
    checks = {where: TargetCheck(where, writers, served) for where, served in reader.served.items()}
    for message in _read_everything(servers, list(checks)):
        where = (str(message.topic()), message.partition() or 0)
        checks[where].add(message.offset() or 0, message.value(), report)
    for check in checks.values():
        check.finish(report)
    check_writers(writers, checks.values(), report)


def _read_everything(servers: str, targets: list[tuple[str, int]]) -> Iterable[Message]:
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        **PATIENT,
        "group.id": "crash-check",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "check.crcs": True,
    }
    consumer = Consumer(config)
    try:
        left = {}
        for topic, partition in targets:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_READ_TIMEOUT_S)
            if high > low:
                left[topic, partition] = high - 1
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in left])
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {sorted(left)} was not reached within {_READ_TIMEOUT_S} s")
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error() is not None:
                    raise RuntimeError(f"reading back failed: {message.error()}")
                deadline = time.monotonic() + _READ_TIMEOUT_S
                yield message
                where = (str(message.topic()), message.partition() or 0)
                if message.offset() == left.get(where):
                    del left[where]
    finally:
        consumer.close()


def verify_files(directories: Iterable[Path]) -> list[str]:
    """What `penstock log dump --verify` says of logs, indexes and snapshots; nothing when all is well."""
    command = [sys.executable, "-m", "penstock.cli.main", "log", "dump", "--verify", *map(str, directories)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()[-2_000:]]
