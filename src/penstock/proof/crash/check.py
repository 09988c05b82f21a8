"""What a log holds after crashes against what was promised. The rules are those of `penstock.testing.history_check`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Message

from penstock.proof.crash.clients import (
    WRITER_KINDS,
    Reader,
    Writer,
    WriterLog,
    decode_value,
    identify,
    name_identified,
    read_committed,
)
from penstock.proof.crash.transactions import KeyedWriter, TransactionalWriter, read_record
from penstock.proof.promises import check_keys
from penstock.proof.reading import READ_TIMEOUT_S, STABLE_TIMEOUT_S, is_stable_soon, read_everything
from penstock.proof.verdict import CLASSES, sort_anomalies
from penstock.testing.history import Anomaly, GroupPartition, HistoryReport, Operation, Outcome, Poll, Where
from penstock.testing.history_check import Expectations, check

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
    transactions: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
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
            f"topics={self.topics_made} transactions_committed={self.transactions[Outcome.OK]} "
            f"aborted={self.transactions[Outcome.FAILED]} unknown={self.transactions[Outcome.UNKNOWN]} "
            f"keyed={self.keyed} compacted_to={self.compacted_to} lost={len(self.lost)} "
            f"duplicated={len(self.duplicated)} reordered={len(self.reordered)} other={len(self.other)} "
            f"peak_rss_mb={self.peak_memory_mb:.0f}"
        )
        lines = [line]
        for name in CLASSES:
            lines += [f"  {name}: {text}" for text in self._of_class(name)[:_MOST_EXAMPLES]]
        return "\n".join(lines)

    def _of_class(self, name: str) -> list[str]:
        texts: list[str] = getattr(self, name)
        return texts

    def add(self, anomalies: Iterable[Anomaly]) -> None:
        for name, texts in sort_anomalies(anomalies).items():
            self._of_class(name).extend(texts)


# ---------------------------------------------------------------------------------------------------- writers


def check_targets(
    servers: str, targets: Sequence[Where], writers: Sequence[Writer], reader: Reader, report: CrashReport
) -> None:
    """One partition after the other: a history of all of them would not fit into memory after a thousand rounds."""
    for where in targets:
        messages = read_everything(servers, [where], "read_uncommitted")
        stored = [(message.offset() or 0, _name(message)) for message in messages]
        judged = judge_partition(targets, where, [writer.log for writer in writers], reader.served[where], stored)
        report.stored += len(stored)
        report.retried += judged.repeated
        report.add(judged.anomalies)
    report.acknowledged += sum(writer.log.acknowledged for writer in writers)


def judge_partition(
    targets: Sequence[Where],
    where: Where,
    writers: Sequence[WriterLog],
    served: Sequence[int],
    stored: Sequence[tuple[int, str]],
) -> HistoryReport:
    """Pure. `served`: what a reader was given at each offset while the broker was killed; `stored`: what is left."""
    history = [operation for writer in writers for operation in writer.operations(targets, where)]
    records = tuple(enumerate(name_identified(identity, WRITER_KINDS) for identity in served))
    history.append(Operation(Reader.PROCESS, Outcome.OK, (Poll(*where, records),)))
    expected = Expectations(
        gapless=[where[0]],
        ordered=[writer.process for writer in writers],
        repeating=[writer.process for writer in writers if not writer.kind.is_idempotent],
        is_complete=True,
    )
    return check(history, final={where: stored}, expected=expected)


def _name(message: Message) -> str:
    try:
        return name_identified(identify(*decode_value(message.value())), WRITER_KINDS)
    except (ValueError, IndexError) as error:
        return str(error)


# ---------------------------------------------------------------------------------------------------- transactions


def check_transactions(
    servers: str,
    targets: Sequence[Where],
    writers: Sequence[TransactionalWriter],
    history: Sequence[Operation],
    report: CrashReport,
) -> None:
    """Committed ones are whole, aborted ones invisible, and none is left open."""
    if not is_stable_soon(servers, targets):
        report.other.append(f"a transaction is still open {STABLE_TIMEOUT_S} s after the last writer ended")
    final: dict[Where, list[tuple[int, str]]] = {where: [] for where in targets}
    for message in read_everything(servers, targets):
        final[str(message.topic()), message.partition() or 0].append((message.offset() or 0, read_record(message)))
    committed = {
        (writer.group, targets[0]): read_committed(servers, writer.group, targets[0], READ_TIMEOUT_S).offset
        for writer in writers
    }
    report.add(judge_transactions(history, final, committed, [writer.process for writer in writers]).anomalies)
    for operation in history:
        if operation.transaction:
            report.transactions[operation.outcome] += 1


def judge_transactions(
    history: Sequence[Operation],
    final: Mapping[Where, Sequence[tuple[int, str]]],
    committed: Mapping[GroupPartition, int],
    writers: Sequence[int],
) -> HistoryReport:
    return check(history, final=final, committed=committed, expected=Expectations(ordered=writers, is_complete=True))


def check_compacted(servers: str, writer: KeyedWriter, target: Where, report: CrashReport) -> None:
    messages = read_everything(servers, [target], "read_uncommitted")
    records = [(message.key() or b"", int(message.value() or b"-1")) for message in messages]
    report.other += check_keys(writer.acknowledged, writer.attempted, records)
    report.keyed, report.compacted_to = writer.written, len(records)


# ---------------------------------------------------------------------------------------------------- files


def verify_files(directories: Iterable[Path]) -> list[str]:
    """What `penstock log dump --verify` says of logs, indexes and snapshots; nothing when all is well."""
    command = [sys.executable, "-m", "penstock.cli.main", "log", "dump", "--verify", *map(str, directories)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()[-2_000:]]
