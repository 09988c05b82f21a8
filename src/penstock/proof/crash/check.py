"""What a log holds after crashes against what was promised: lost, duplicated, reordered, changed, damaged."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.proof.crash.clients import PATIENT, Reader, Writer, decode_value, identify, read_committed
from penstock.proof.crash.transactions import (
    ABORTED,
    COMMITTED,
    UNKNOWN,
    CommittedReader,
    KeyedWriter,
    TransactionalWriter,
    TransactionCheck,
    check_keys,
)

_READ_TIMEOUT_S = 120.0
_STABLE_TIMEOUT_S = 60.0
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
    transactions: dict[int, int] = field(default_factory=lambda: dict.fromkeys((COMMITTED, ABORTED, UNKNOWN), 0))
    keyed: int = 0
    compacted_to: int = 0
    peak_memory_mb: float = 0.0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    retried: int = 0  # second copies of records of plain producers, which promise no better
    reordered: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.duplicated or self.reordered or self.other)

    def __str__(self) -> str:
        line = (
            f"crash rounds: seed={self.seed} rounds={self.rounds} while_starting={self.kills_while_starting} "
            f"acknowledged={self.acknowledged} stored={self.stored} retried={self.retried} commits={self.commits} "
            f"topics={self.topics_made} transactions_committed={self.transactions[COMMITTED]} "
            f"aborted={self.transactions[ABORTED]} unknown={self.transactions[UNKNOWN]} "
            f"keyed={self.keyed} compacted_to={self.compacted_to} lost={len(self.lost)} "
            f"duplicated={len(self.duplicated)} reordered={len(self.reordered)} other={len(self.other)} "
            f"peak_rss_mb={self.peak_memory_mb:.0f}"
        )
        lines = [line]
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


def check_transactions(
    servers: str, writers: Sequence[TransactionalWriter], reader: CommittedReader, report: CrashReport
) -> None:
    """Committed ones are whole, aborted ones invisible, and none is left open."""
    targets = list(reader.offsets)
    _wait_until_stable(servers, targets, report)
    check = TransactionCheck([writer.log for writer in writers])
    stored: dict[tuple[str, int], dict[int, bytes]] = {where: {} for where in targets}
    for message in _read_everything(servers, targets, isolation="read_committed"):
        where, offset = (str(message.topic()), message.partition() or 0), message.offset() or 0
        check.add(where, offset, message.value())
        stored[where][offset] = message.value() or b""
    check.add_earlier(reader, stored)
    check.finish([read_committed(servers, each.group, targets[0], _READ_TIMEOUT_S).offset for each in writers])
    report.lost += check.lost
    report.duplicated += check.duplicated
    report.reordered += check.reordered
    report.other += check.other
    for writer in writers:
        for outcome in report.transactions:
            report.transactions[outcome] += writer.log.count(outcome)


def _wait_until_stable(servers: str, targets: list[tuple[str, int]], report: CrashReport) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **PATIENT})

    def ends(isolation: IsolationLevel) -> list[int]:
        asked = {TopicPartition(*target): OffsetSpec.latest() for target in targets}
        found = admin.list_offsets(asked, isolation_level=isolation)
        return [future.result(_READ_TIMEOUT_S).offset for future in found.values()]

    deadline = time.monotonic() + _STABLE_TIMEOUT_S
    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        if time.monotonic() > deadline:
            report.other.append(f"a transaction is still open {_STABLE_TIMEOUT_S} s after the last writer ended")
            return
        time.sleep(0.1)


def check_compacted(servers: str, writer: KeyedWriter, target: tuple[str, int], report: CrashReport) -> None:
    records = [(each.key() or b"", int(each.value() or b"-1")) for each in _read_everything(servers, [target])]
    report.other += check_keys(writer.acknowledged, writer.attempted, records)
    report.keyed, report.compacted_to = writer.written, len(records)


def _read_everything(
    servers: str, targets: list[tuple[str, int]], isolation: str = "read_uncommitted"
) -> Iterable[Message]:
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        **PATIENT,
        "group.id": "crash-check",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "error",
        "check.crcs": True,
    }
    consumer = Consumer(config)
    try:
        left = set(targets)
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in left])
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {sorted(left)} was not reached within {_READ_TIMEOUT_S} s")
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise RuntimeError(f"reading back failed: {error}")
                deadline = time.monotonic() + _READ_TIMEOUT_S
                if error is None:
                    yield message
                else:
                    left.discard((str(message.topic()), message.partition() or 0))
    finally:
        consumer.close()


def verify_files(directories: Iterable[Path]) -> list[str]:
    """What `penstock log dump --verify` says of logs, indexes and snapshots; nothing when all is well."""
    command = [sys.executable, "-m", "penstock.cli.main", "log", "dump", "--verify", *map(str, directories)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()[-2_000:]]
