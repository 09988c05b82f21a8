"""What a log holds after crashes against what was promised. The rules are those of `penstock.testing.history_check`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.testing.fleet.pollers import target_of
from penstock.testing.fleet.read_back import READ_TIMEOUT_S, STABLE_TIMEOUT_S, is_stable_soon, read_everything
from penstock.testing.fleet.transactions import TransactionalSender
from penstock.testing.fleet.values import read_value
from penstock.testing.history import Anomaly, Final, GroupPartition, HistoryReport, Operation, Outcome, Poll, Where
from penstock.testing.history_check import Expectations, check
from proof.fleet.committer import read_committed
from proof.fleet.streams import StreamLog, StreamReader, StreamSender, name_identified, read_streamed
from proof.verdict import CLASSES, sort_anomalies

# A finding names examples; a log with a million lost records need not list them all.
_MOST_EXAMPLES = 5
_ORDER = ("nonmonotonic-send", "int-nonmonotonic-send")
# The cleaner is a nice process: on busy cores one cleaning took longer than a broker of these rounds lives. The last
# broker lives until the cleaner has ended once, or for so long.
_CLEANING_PATIENCE_S = 60.0
_CLEANING_PAUSE_S = 0.5


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


# ---------------------------------------------------------------------------------------------------- streams


def check_streams(
    servers: str, targets: Sequence[Where], senders: Sequence[StreamSender], reader: StreamReader, report: CrashReport
) -> None:
    """One partition after the other: a history of all of them would not fit into memory after a thousand rounds."""
    for target in targets:
        stored = _read_stream(servers, target)
        judged = judge_stream(targets, target, [sender.log for sender in senders], reader.served[target], stored)
        report.stored += len(stored)
        report.retried += judged.repeated
        report.add(judged.anomalies)
    report.acknowledged += sum(sender.log.acknowledged for sender in senders)


def check_compacted(servers: str, sender: StreamSender, report: CrashReport) -> None:
    """The latest record of each key is left."""
    (target,) = sender.targets
    deadline = time.monotonic() + _CLEANING_PATIENCE_S
    while len(stored := _read_stream(servers, target)) >= len(sender.log.offsets) and time.monotonic() < deadline:
        time.sleep(_CLEANING_PAUSE_S)
    report.add(judge_stream([target], target, [sender.log], [], stored, is_compacted=True).anomalies)
    report.keyed, report.compacted_to = len(sender.log.offsets), len(stored)


def judge_stream(
    targets: Sequence[Where],
    target: Where,
    logs: Sequence[StreamLog],
    served: Sequence[int],
    stored: Sequence[tuple[int, str]],
    *,
    is_compacted: bool = False,
    has_other_leaders: bool = False,
) -> HistoryReport:
    """Pure. `served`: what a reader was given at each offset while the broker was killed; `stored`: what is left.

    Where a partition's leader changes, plain senders promise no order: librdkafka asks the new leader while its request
    to the old one is in flight, and sends that one again afterwards, whatever its limit for requests in flight is.
    """
    history = [operation for log in logs for operation in log.operations(targets, target)]
    records = tuple(enumerate(name_identified(identity) for identity in served))
    history.append(Operation(StreamReader.PROCESS, Outcome.OK, (Poll(*target, records),)))
    expected = Expectations(
        gapless=[] if is_compacted else [target[0]],
        compacted=[target[0]] if is_compacted else [],
        ordered=[log.sender for log in logs if log.kind.is_idempotent or not has_other_leaders],
        repeating=[log.sender for log in logs if not log.kind.is_idempotent],
        is_complete=True,
    )
    judged = check(history, final={target: stored}, expected=expected)
    if not has_other_leaders:
        return judged
    left = [each for each in judged.anomalies if each.kind not in _ORDER or not _is_of(each, expected.repeating)]
    return replace(judged, anomalies=tuple(left))


def _is_of(anomaly: Anomaly, processes: Collection[int]) -> bool:
    return any(operation.process in processes for operation in anomaly.operations)


def _read_stream(servers: str, target: Where) -> list[tuple[int, str]]:
    messages = read_everything(servers, [target], "read_uncommitted")
    return [(message.offset() or 0, read_streamed(message)) for message in messages]


# ---------------------------------------------------------------------------------------------------- transactions


def check_transactions(
    servers: str, senders: Sequence[TransactionalSender], history: Sequence[Operation], report: CrashReport
) -> None:
    """Committed ones are whole, aborted ones invisible, and none is left open."""
    targets = senders[0].targets
    if not is_stable_soon(servers, targets):
        report.other.append(f"a transaction is still open {STABLE_TIMEOUT_S} s after the last sender ended")
    final: dict[Where, list[tuple[int, int | str]]] = {target: [] for target in targets}
    for message in read_everything(servers, targets):
        final[target_of(message)].append((message.offset() or 0, read_value(message)))
    committed = {
        (sender.group, targets[0]): read_committed(servers, sender.group, targets[0], READ_TIMEOUT_S).offset
        for sender in senders
    }
    report.add(judge_transactions(history, final, committed, [sender.process for sender in senders]).anomalies)
    for operation in history:
        if operation.transaction:
            report.transactions[operation.outcome] += 1


def judge_transactions(
    history: Sequence[Operation],
    final: Final,
    committed: Mapping[GroupPartition, int],
    senders: Sequence[int],
) -> HistoryReport:
    return check(history, final=final, committed=committed, expected=Expectations(ordered=senders, is_complete=True))


# ---------------------------------------------------------------------------------------------------- files


def verify_files(directories: Iterable[Path]) -> list[str]:
    """What `penstock log dump --verify` says of logs, indexes and snapshots; nothing when all is well."""
    command = [sys.executable, "-m", "penstock.cli.main", "log", "dump", "--verify", *map(str, directories)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()[-2_000:]]
