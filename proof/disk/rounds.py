"""Disk rounds: one file operation fails in the life of a broker, at a planned place; then everything promised is there.

    python -m proof disk --rounds 200 --seed 7

Each round is a broker's whole life on two directories: it starts, makes topics, takes records from plain, idempotent
and transactional producers, flushes, checkpoints, compacts, deletes and stops or crashes, starts again and does the
same. Once in it an operation fails (see `disk.plans`). Then the disk is healed, the broker starts for the last time,
and `disk.check` compares. The broker runs in this process, and its chores when they are told to, so that a seed says
almost exactly what happens.
"""

from __future__ import annotations

import random
import shutil
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.testing.history import Outcome, Where
from proof.caught_logs import tracebacks_noted
from proof.crash.check import verify_files
from proof.disk.broker import LocalBroker
from proof.disk.check import DiskCheck, note_served, read_partition
from proof.disk.clients import (
    Clock,
    History,
    IdempotentProducer,
    PlainProducer,
    TransactionalProducer,
    Wire,
    commit_offset,
    find_coordinators,
)
from proof.disk.plans import KINDS, Cell, Mode, Plan, PlannedFiles, make_plans
from proof.frame import Say, Task, say_nothing
from proof.memory import peak_size, resident_size

_ROLLING = {"segment.ms": "15", "index.interval.bytes": "1"}
_TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (2, {}),
    "rolled": (1, _ROLLING),
    "flushed": (1, {"flush.messages": "1"}),
    "retained": (1, {**_ROLLING, "retention.bytes": "1500"}),
    "compacted": (1, {**_ROLLING, "cleanup.policy": "compact"}),
    "transacted": (3, {"segment.ms": "100"}),
}
_TARGETS: list[Where] = [(name, index) for name, (count, _) in _TOPICS.items() for index in range(count)]
_COMPACTED: Where = ("compacted", 0)
_RETAINED: Where = ("retained", 0)
_TRANSACTED: list[Where] = [topic_partition for topic_partition in _TARGETS if topic_partition[0] == "transacted"]
_WRITTEN: list[Where] = [topic_partition for topic_partition in _TARGETS if topic_partition != _COMPACTED]
_KEYS = 5
_CHORES = ("flush", "checkpoints", "compaction", "retention", "file removal", "checkpoints")
# What a crash leaves behind the last whole batch of a log.
_TORN_TAILS = (b"", b"\0" * 64, b"\0\0\0\0\0\0\0\7\0\0\1\0torn", bytes(range(150)))
_ROUNDS_UNTIL_WARM = 5
_MAX_GROWTH_MB = 64.0
_VERIFIED_AT_ONCE = 10
_MOST_EXAMPLES = 20
_MAX_ATTEMPTS = 3
_MOST_FROM_A_ROUND = 4


# ---------------------------------------------------------------------------------------------------- one round


class DiskRound:
    def __init__(self, root: Path, seed: str, plan: Plan | None, *, is_crash: bool) -> None:
        self.plan = plan
        self.is_crash = is_crash
        self.history = History()
        self.files = PlannedFiles(plan)
        self.starts_refused = 0
        self._root = root
        self._random = random.Random(seed)
        self._broker = LocalBroker(self.files, self.history.findings.append)
        self._made = 0
        clock, is_online = Clock(), self._broker.is_online
        self._plain = PlainProducer("plain", self.history, clock, is_online)
        self._idempotent = IdempotentProducer("idempotent", self.history, clock, is_online)
        self._transactional = [
            TransactionalProducer(f"transactional-{index}", self.history, clock, is_online) for index in range(2)
        ]
        self.directories = [root / "first" / "one", root / "first" / "two"]

    def run(self) -> None:
        with tracebacks_noted(self.history.findings.append):
            try:
                self._start("start")
                self._work()
                self._end_first_life()
                self._start("recovery" if self.is_crash else "load")
                self._work()
                self._stop()
                self.files.heal()
                self._finish()
            finally:
                self._broker.close()

    # ---- its parts

    def _start(self, phase: str | None) -> None:
        with self.files.during(phase):
            is_started = self._broker.start(self.directories)
        if not is_started:
            self.starts_refused += 1
            if not self.files.has_failed:
                self.history.findings.append(f"the broker does not start on a disk that works ({phase})")
            self.files.heal()
            with self.files.during(phase):
                assert self._broker.start(self.directories), "the broker does not start on a healed disk"
        self._wire = Wire(self._broker.server.bootstrap_servers, self.history.findings.append)

    def _work(self) -> None:
        self._create_topics()
        self._append(8)
        self._read()
        for chore in _CHORES:
            with self.files.during(chore):
                self._broker.run_chore(chore)
        self._change_topics()
        self._append(3)
        self._read()
        if self.plan is not None and self.plan.mode is Mode.ONCE:
            offline = self._broker.offline_places()
            if len(offline) > 1:
                self.history.findings.append(f"one failure took {sorted(offline)} offline")

    def _create_topics(self) -> None:
        for name in _TOPICS:
            if name not in self.history.topics_made:
                self._create(name)
        with self.files.during("topic creation"):
            find_coordinators(self._wire)

    def _create(self, name: str) -> None:
        partitions, configs = _TOPICS.get(name, (2, {}))
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        with self.files.during("topic creation"):
            answer = self._wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        result = None if answer is None else answer.topics[0]
        if self._wire.judge(result, f"making {name}") in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self.history.topics_made.add(name)

    def _append(self, turns: int) -> None:
        with self.files.during("append"):
            for _ in range(turns):
                self._plain.send(self._wire, self._random.choice(_WRITTEN), self._random)
                self._plain.send(self._wire, _RETAINED, self._random)
                self._plain.send(self._wire, _COMPACTED, self._random, _KEYS)
                self._idempotent.send(self._wire, self._random.choice(_WRITTEN), self._random)
                self._random.choice(self._transactional).run(self._wire, _TRANSACTED, self._random)
                commit_offset(self._wire, self.history, _TARGETS[0])

    def _read(self) -> None:
        with self.files.during("fetch"):
            for topic_partition in _TARGETS:
                has_holes = topic_partition == _COMPACTED
                view = read_partition(self._wire, topic_partition, self.history.findings.append, has_holes=has_holes)
                note_served(view, self.history)

    def _change_topics(self) -> None:
        self._made += 1
        name = f"made-{self._made}"
        self._create(name)
        deleted = f"made-{self._random.randint(1, self._made)}"
        self.history.topics_made.discard(deleted)
        with self.files.during("topic deletion"):
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=deleted)], timeout_ms=10_000)
            answer = self._wire.ask(request)
        result = None if answer is None else answer.responses[0]
        if self._wire.judge(result, f"deleting {deleted}") is ErrorCode.NONE:
            self.history.topics_deleted.add(deleted)
        with self.files.during("record deletion"):
            partition = DeleteRecordsPartition(partition_index=0, offset=self._made * 3)
            topic = DeleteRecordsTopic(name=_RETAINED[0], partitions=[partition])
            self._wire.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
        with self.files.during("file removal"):
            self._broker.run_chore("file removal")

    def _stop(self) -> None:
        self._wire.close()
        with self.files.during("shutdown"):
            self._broker.stop()

    def _end_first_life(self) -> None:
        """A crash is what stands on the disk now, with a torn write behind some of the logs."""
        if not self.is_crash:
            self._stop()
            return
        copies = [self._root / "second" / path.name for path in self.directories]
        with self.files.during(None):
            for source, target in zip(self.directories, copies, strict=True):
                shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock"))
            self._wire.close()
            self._broker.stop()
        self.directories = copies
        for directory in copies:
            for partition in sorted(directory.glob("*-[0-9]*")):
                if logs := sorted(partition.glob("*.log")):
                    with logs[-1].open("ab") as file:
                        file.write(self._random.choice(_TORN_TAILS))

    def _finish(self) -> None:
        """Checks on a healed disk that everything is there, every partition can be written and the files are whole."""
        self._start(None)
        self._create_topics()
        for topic_partition in self._idempotent.pending:
            if not self._idempotent.resend(self._wire, topic_partition):
                self.history.findings.append(f"the idempotent producer cannot go on in {topic_partition}")
        checker = DiskCheck(self._wire, self.history, _TARGETS, _COMPACTED, [_RETAINED], _TRANSACTED[0][0])
        checker.run(self._transactional)
        for topic_partition in _TARGETS:
            self._plain.send(self._wire, topic_partition, self._random, _KEYS)
            if self.history.sent[-1].outcome is not Outcome.OK:
                self.history.findings.append(f"{topic_partition} cannot be written after the last start")
        with self.files.during(None):
            self._wire.close()
            self._broker.stop()


# ---------------------------------------------------------------------------------------------------- all rounds


@dataclass
class DiskReport:
    seed: int
    rounds: int = 0
    missed: int = 0  # rounds whose operation did not come
    acknowledged: int = 0
    refused: int = 0
    starts_refused: int = 0
    hits: Counter[Cell] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)

    @property
    def kinds_missing(self) -> list[str]:
        hit = {cell.kind for cell in self.hits}
        return [kind for kind in KINDS if kind not in hit]

    @property
    def growth_mb(self) -> float:
        warm = self.memory_mb[_ROUNDS_UNTIL_WARM:]
        return max(warm) - warm[0] if warm else 0.0

    @property
    def is_sound(self) -> bool:
        return not (self.findings or self.kinds_missing) and self.growth_mb <= _MAX_GROWTH_MB

    def __str__(self) -> str:
        counts = Counter(text.partition(": ")[2].partition(":")[0] for text in self.findings)
        other = sum(counts.values()) - counts["lost"] - counts["duplicated"] - counts["reordered"]
        peak_mb = peak_size() / 1024 / 1024
        line = (
            f"disk rounds: seed={self.seed} rounds={self.rounds} missed={self.missed} "
            f"acknowledged={self.acknowledged} refused={self.refused} starts_refused={self.starts_refused} "
            f"lost={counts['lost']} duplicated={counts['duplicated']} reordered={counts['reordered']} other={other} "
            f"operations={len(KINDS) - len(self.kinds_missing)}/{len(KINDS)} "
            f"peak_rss_mb={peak_mb:.0f} growth_mb={self.growth_mb:.0f}"
        )
        missing = [f"  never hit: {', '.join(self.kinds_missing)}"] if self.kinds_missing else []
        return "\n".join([line, *missing, *(f"  {text}" for text in self.findings[:_MOST_EXAMPLES])])

    def table(self) -> str:
        """Which operations failed in which phase, and how often."""
        phases = sorted({cell.phase for cell in self.hits})
        width = max(map(len, KINDS))
        rows = []
        for kind in KINDS:
            cells = [f"{phase} {count}" for phase in phases if (count := self.hits[Cell(kind, phase)])]
            rows.append(f"{kind:{width}}  {', '.join(cells) or '-'}")
        return "\n".join(rows)


@dataclass
class DiskRounds:
    root: Path
    rounds: int
    seed: int
    only: int | None = None
    say: Say = say_nothing

    def run(self) -> DiskReport:
        report = DiskReport(self.seed)
        profiles = []
        for is_crash in (False, True):
            healthy = self._run_one(f"healthy-{is_crash}", None, is_crash, report)
            profiles.append((is_crash, healthy.files.counts))
        for number, plan in enumerate(make_plans(profiles, self.rounds, random.Random(self.seed)), 1):
            if self.only in (None, number):
                done = self._run_planned(str(number), plan, report)
                report.rounds += 1
                report.missed += not done.files.has_failed
                report.hits += Counter(set(done.files.hits))
                self.say(f"round {number} of {self.rounds}: {plan}")
        self._verify(report)
        return report

    def _run_planned(self, name: str, plan: Plan, report: DiskReport) -> DiskRound:
        """A life in which the operation fails. A life in which it did not come is followed by another one."""
        done = self._run_one(name, plan, plan.is_crash, report)
        for attempt in range(2, _MAX_ATTEMPTS + 1):
            if done.files.has_failed:
                break
            plan = plan.within_reach(done.files.counts)
            done = self._run_one(f"{name}-attempt-{attempt}", plan, plan.is_crash, report)
        return done

    def _run_one(self, name: str, plan: Plan | None, is_crash: bool, report: DiskReport) -> DiskRound:
        done = DiskRound(self.root / name, f"{self.seed}/{name}", plan, is_crash=is_crash)
        try:
            done.run()
        except (AssertionError, TimeoutError) as error:
            done.history.findings.append(f"the round broke off: {error!r} at {_last_line(error)}")
        report.findings += [f"round {name} ({plan}): {text}" for text in done.history.findings[:_MOST_FROM_A_ROUND]]
        report.acknowledged += done.history.acknowledged
        report.refused += done.history.refused
        report.starts_refused += done.starts_refused
        report.memory_mb.append(resident_size() / 1024 / 1024)
        if sum(1 for _ in self.root.iterdir()) >= _VERIFIED_AT_ONCE:
            self._verify(report)
        return done

    def _verify(self, report: DiskReport) -> None:
        """All files of several rounds at once: starting the command costs more than reading them."""
        partitions = [path for path in self.root.glob("*/*/*/*-[0-9]*") if path.is_dir() and path.suffix == ""]
        last = [path for path in partitions if path.parents[1].name == "second" or not _has_second(path)]
        report.findings += [f"files: {text}" for text in verify_files(last)] if last else []
        for round_directory in self.root.iterdir():
            shutil.rmtree(round_directory)


def _has_second(partition: Path) -> bool:
    return (partition.parents[2] / "second").exists()


def _last_line(error: Exception) -> str:
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{Path(frame.filename).name}:{frame.lineno}"


def run(task: Task) -> DiskReport:
    report = DiskRounds(task.scratch, task.rounds, task.seed, task.options["only"], task.say).run()
    task.say(f"operations that failed:\n{report.table()}")
    return report
