"""Damaged files, thousands of times: copy a data directory, damage one file, start, and compare what is served.

    python -m proof damage --rounds 10000 --seed 7

Most cases open the logs alone, which takes milliseconds; some start a whole broker and ask it. A start must recover or
refuse with a reason; what is served must be what was there, at its offset; and whatever the damage did not touch must
be whole. A case is repeated with `--seed N --only CASE`.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.log.directories.log_directories import LogDirectories, LogDirectoryError
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files
from penstock.protocol.batch import is_crc_valid, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import Record, build_batch
from proof.caught_logs import tracebacks_noted
from proof.damage.broker import check_broker
from proof.damage.damage import Damage, OriginalLog, Template, build_templates, damage, is_store, whole_batches
from proof.frame import Say, Task, say_nothing
from proof.surprise import Surprise

_BROKER_SHARE = 0.02
_REOPENED_SHARE = 0.3
_SLOW_S = 10.0
_PIECE_SIZE = 1_000
_MOST_EXAMPLES = 10
_NODE = 1
# What no checksum covers, in Kafka's format as in ours: the offset and the epoch that the broker writes into a batch.
_BASE_OFFSET_BYTES = range(8)
_EPOCH_BYTES = slice(12, 16)


@dataclass
class DamageReport:
    seed: int
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    records: int = 0
    slowest_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(self.outcomes.items()))
        line = (
            f"damage: seed {self.seed}, {self.cases:,} cases: {counts}; {self.records:,} records compared, "
            f"slowest {self.slowest_s:.2f} s, {len(self.findings)} findings"
        )
        return "\n".join([line, *(f"  {text}" for text in self.findings[:_MOST_EXAMPLES])])


class _RefusedError(Exception):
    """The partition says that it cannot be read: nobody is told anything wrong."""


class LogCheck:
    """One partition after the start against what it held before the damage."""

    def __init__(self, topic_partition: TopicPartition, original: OriginalLog, done: Damage) -> None:
        self.topic_partition = topic_partition
        self.original = original
        self.is_touched = topic_partition in done.touched
        self.is_log_damaged = self.is_touched and done.suffix == names.LOG
        self._done = done
        self.records = 0
        self.findings: list[str] = []
        self.was_refused = False

    def run(self, log: PartitionLog, dice: random.Random) -> None:
        try:
            if log.offline_reason is not None:
                raise _RefusedError(log.offline_reason)
            served = self._read_all(log)
            self._check_completeness(log, served)
            for _ in range(4):
                self._read_from(log, dice.randrange(log.log_start_offset, log.log_end_offset + 1), served)
            if not self.is_log_damaged:
                self._check_searches(log, dice)
            self._check_aborted(log, served)
            self._append(log)
        except _RefusedError as refusal:
            self.was_refused = True
            if not self.is_log_damaged and not self._may_refuse():
                self._note(f"refused: {refusal}")
        except ApiError as error:
            if error.code != ErrorCode.KAFKA_STORAGE_ERROR or not self.is_touched:
                self._note(f"{error.code.name}: {error.message}")
            self.was_refused = True

    def _note(self, text: str) -> None:
        self.findings.append(f"{self.topic_partition}: {text}")

    def _may_refuse(self) -> bool:
        """A directory in a file's place is no damage that a disk does; only the partition itself may fail."""
        return self.is_touched and self._done.kind == "a directory"

    # ---- records

    def _read_all(self, log: PartitionLog) -> list[int]:
        served: list[int] = []
        offset = log.log_start_offset
        while (data := self._read(log, offset)) is not None:
            after = offset
            for header, batch in whole_batches(data):
                self._compare(batch)
                served.append(header.base_offset)
                after = header.next_offset
            if after <= offset:
                self._note(f"reading from {offset} does not get on")
                break
            offset = after
        return served

    def _read(self, log: PartitionLog, offset: int) -> bytes | None:
        try:
            piece = log.reader.read(offset, _PIECE_SIZE, log.log_end_offset, at_least_one=True)
            return None if piece is None else piece.read(0, len(piece))
        except ApiError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                raise _RefusedError(error.message) from error
            raise

    def _compare(self, batch: bytes) -> None:
        header = read_header(batch)
        if not is_crc_valid(batch, 0, header):
            self._note(f"a batch with a wrong checksum was served at {header.base_offset}")
            return
        expected = self.original.batches.get(header.base_offset)
        if expected is None or _without_epoch(expected) != _without_epoch(batch):
            if not self._is_offset_damaged():
                self._note(f"the batch at {header.base_offset} is not the one that was there")
            return
        if expected != batch and not self.is_log_damaged:
            self._note(f"the batch at {header.base_offset} has another epoch")
        self.records += header.record_count

    def _is_offset_damaged(self) -> bool:
        """Whether the damage is where no checksum could show it: in the base offset of a batch."""
        if not self.is_log_damaged or self._done.kind in ("exchanged", "copied", "a directory"):
            return False
        base_offset = names.base_offset_of(self._done.path.rpartition("/")[2])
        assert base_offset is not None
        start = 0
        for offset, batch in self.original.batches.items():
            if offset < base_offset:
                continue
            if self._done.first_byte - start in _BASE_OFFSET_BYTES:
                return True
            start += len(batch)
        return False

    def _check_completeness(self, log: PartitionLog, served: list[int]) -> None:
        """Everything that the damage left: all of it, or what stands before it where a log was damaged."""
        end = self._intact_end()
        wanted = [offset for offset in self.original.batches if log.log_start_offset <= offset < end]
        missing = sorted(set(wanted) - set(served))
        if missing:
            self._note(f"{len(missing)} batches are gone, the first at {missing[0]}; the log ends {log.log_end_offset}")
        if served != sorted(set(served)):
            self._note(f"batches were served twice or out of order: {served}")
        if not self._is_start_damaged() and log.log_start_offset > max(self.original.log_start_offset, 0):
            self._note(f"the log starts at {log.log_start_offset}, not at {self.original.log_start_offset}")
        if not self.is_log_damaged and log.log_end_offset != self.original.log_end_offset:
            self._note(f"the log ends at {log.log_end_offset}, not at {self.original.log_end_offset}")

    def _is_start_damaged(self) -> bool:
        return self._done.suffix == names.LOG_START_OFFSETS or (self.is_log_damaged and self._done.first_byte == 0)

    def _intact_end(self) -> int:
        """The offset up to which the damage cannot have destroyed anything."""
        if not self.is_log_damaged:
            return self.original.log_end_offset
        paths = [path for path in (self._done.path, self._done.other) if path]
        bases = [names.base_offset_of(path.rpartition("/")[2]) or 0 for path in paths]
        if len(bases) > 1 or not self._done.first_byte:
            # A copy harms what stands behind its name; an exchange what stands behind the first of the two.
            return bases[1] if self._done.kind == "copied" else min(bases)
        start = 0
        for offset, batch in self.original.batches.items():
            if offset >= bases[0]:
                start += len(batch)
                if start > self._done.first_byte:
                    return offset
        return self.original.log_end_offset

    # ---- what indexes are for

    def _read_from(self, log: PartitionLog, offset: int, served: list[int]) -> None:
        """The first batch that an index leads to is the one that holds the offset, or the next."""
        data = self._read(log, offset)
        first = next((header.base_offset for header, _ in whole_batches(data)), None) if data is not None else None
        wanted = next(
            (base for base in served if base + read_header(self.original.batches[base]).last_offset_delta >= offset)
            if all(base in self.original.batches for base in served)
            else iter([first]),
            None,
        )
        if first != wanted:
            self._note(f"reading from {offset} begins with the batch at {first}, not {wanted}")

    def _check_searches(self, log: PartitionLog, dice: random.Random) -> None:
        times = sorted(self.original.by_timestamp)
        for timestamp in dice.sample(times, min(len(times), 4)):
            wanted = self.original.by_timestamp[timestamp]
            if wanted < log.log_start_offset or self._is_start_damaged():
                continue
            position = log.reader.find_by_timestamp(timestamp)
            if (position is None or position.offset != wanted) and not self._is_unprotected(names.TIME_INDEX):
                self._note(f"time {timestamp} was found at {position}, not at {wanted}")

    def _check_aborted(self, log: PartitionLog, served: list[int]) -> None:
        if not self.original.aborted or not served:
            return
        told = [
            transaction[:3] for transaction in log.reader.aborted_transactions(log.log_start_offset, served[-1] + 1)
        ]
        wanted = [
            transaction[:3]
            for transaction in self.original.aborted
            if {transaction.first_offset, transaction.last_offset} <= set(served)
        ]
        # Where records are gone, a transaction may have lost its beginning or its end.
        is_right = set(wanted) <= set(told) if self.is_log_damaged else wanted == told
        if not is_right and not self._is_unprotected(names.TRANSACTION_INDEX):
            self._note(f"aborted transactions {told}, not {wanted}")

    def _is_unprotected(self, suffix: str) -> bool:
        """Indexes have no checksums, in Kafka's format as in ours: one that is wrong and well-formed is believed. The
        offset index is compared with the log at every use; these two are not.
        """
        return self.is_touched and self._done.suffix == suffix

    def _append(self, log: PartitionLog) -> None:
        end = log.log_end_offset
        now_ms = SystemClock().now_ms()
        added = log.append_as_leader(build_batch([Record(b"k", b"new", (), now_ms)]), 1_000, now_ms)
        data = self._read(log, end)
        if added.base_offset != end or data is None or read_header(data).base_offset != end:
            self._note(f"a record appended at {end} stands at {added.base_offset}")


def _without_epoch(batch: bytes) -> bytes:
    return batch[: _EPOCH_BYTES.start] + batch[_EPOCH_BYTES.stop :]


@dataclass
class DamageRounds:
    scratch: Path
    cases: int
    seed: int
    broker_share: float = _BROKER_SHARE
    only: int | None = None
    say: Say = say_nothing

    def run(self) -> DamageReport:
        report = DamageReport(self.seed)
        templates = asyncio.run(build_templates(self.scratch, self.seed))
        lines: list[str] = []
        with tracebacks_noted(lines.append):
            for number in range(self.cases) if self.only is None else [self.only]:
                started = time.monotonic()
                self._run_case(number, templates, report, lines)
                elapsed = time.monotonic() - started
                report.slowest_s = max(report.slowest_s, elapsed)
                if elapsed > _SLOW_S:
                    report.findings.append(f"case {number} took {elapsed:.1f} s")
                if number % 1_000 == 999:
                    self.say(f"{number + 1:,} cases, {len(report.findings)} findings")
        shutil.rmtree(self.scratch / "case", ignore_errors=True)
        return report

    def _run_case(self, number: int, templates: list[Template], report: DamageReport, lines: list[str]) -> None:
        dice = random.Random(self.seed * 1_000_003 + number)
        template = dice.choice(templates)
        directory = self.scratch / "case"
        template.write_to(directory)
        is_whole_broker = dice.random() < self.broker_share
        paths = [
            path
            for path in template.files
            if not path.endswith(names.DELETED) and (is_whole_broker or not is_store(path))
        ]
        done = damage(dice, template, directory, paths)
        lines.clear()
        findings: list[str] = []
        outcome = "crashed"
        with Surprise() as surprise:  # whatever a start lets through is what this is about
            if is_whole_broker:
                outcome = asyncio.run(check_broker(template, directory, done, findings))
            else:
                outcome = self._check_logs(template, directory, done, dice, findings, report)
        if surprise.error is not None:
            findings.append(str(surprise))
        findings += lines
        report.cases += 1
        report.outcomes[outcome] += 1
        report.findings += [f"case {number}, {template.name}, {done}: {text}" for text in findings]

    def _check_logs(
        self,
        template: Template,
        directory: Path,
        done: Damage,
        dice: random.Random,
        findings: list[str],
        report: DamageReport,
    ) -> str:
        outcomes = set()
        for attempt in range(1 + (dice.random() < _REOPENED_SHARE)):
            try:
                logs = _open(directory, template)
            except LogDirectoryError as error:
                if done.suffix != names.META_PROPERTIES and done.kind != "a directory":
                    findings.append(f"no start: {error}")
                return "refused to start"
            try:
                if attempt == 0:
                    outcomes |= {
                        _check_one(logs, topic_partition, template, done, dice, findings, report)
                        for topic_partition in template.logs
                    }
            finally:
                logs.close(clean=dice.random() < 0.5)
        return "partition refused" if True in outcomes else "served"


def _check_one(
    logs: LogDirectories,
    topic_partition: TopicPartition,
    template: Template,
    done: Damage,
    dice: random.Random,
    findings: list[str],
    report: DamageReport,
) -> bool:
    log = logs.logs.get(topic_partition)
    if log is None:
        findings.append(f"{topic_partition} is not there")
        return False
    log.advance_high_watermark(log.log_end_offset)
    check = LogCheck(topic_partition, template.logs[topic_partition], done)
    check.run(log, dice)
    findings += check.findings
    report.records += check.records
    return check.was_refused


def _open(directory: Path, template: Template) -> LogDirectories:
    return LogDirectories.open(
        [directory],
        node_id=_NODE,
        cluster_id=template.cluster_id,
        settings_for=lambda topic: template.settings.get(topic, LogSettings()),
        clock=SystemClock(),
        files=Files(),
    )


def run(task: Task) -> DamageReport:
    only, broker_share = task.options["only"], task.options["broker_share"]
    return DamageRounds(task.scratch, task.rounds, task.seed, broker_share, only, task.say).run()
