"""Rounds of one fault: what coordinates a cluster stands still, and meanwhile one of three brokers does, too.

    python -m proof pauses --rounds 200 --seed 7
    python -m proof pauses --rounds 20 --busy 0

In each round an idempotent librdkafka producer at its defaults, without linger, writes to the three partitions of a new
topic. Coordination (ZooKeeper) is paused, then a broker for some seconds: it leads one partition and follows in two, so
nobody is sure to lead any of them until it is back. Then the broker goes on, and coordination. No record may be lost,
doubled or reordered, and none may fail. Busy loops beside the cluster make it likelier that requests overtake answers.

The partitions are read as raw batches (`placed`), so a finding names the offsets, the producer's epochs and the
sequences. The data of a bad round, the brokers' logs and librdkafka's are copied to a directory that stays.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.local_cluster.errors import ClusterError
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.fleet.client import Setting
from penstock.testing.fleet.recorder import Recorder
from penstock.testing.history import Where
from proof.busy_loops import BusyLoops
from proof.frame import Say, Task, say_nothing
from proof.pauses.placed import Placed, count_bumped, judge_placed, read_placed
from proof.pauses.stage import PATIENCE_S, Pausable, PenstockStage, Stage
from proof.pauses.writer import Writer
from proof.verdict import CLASSES, OTHER, sort_anomalies

PARTITIONS = 3
# Longer than the leases and the sessions of brokers, so that all of them end meanwhile.
PAUSES_S = (2.0, 3.0, 4.0, 5.0)
BUSY = 2
# Acknowledged before each step: the producer has its id, and batches are on their way all the time.
_BEFORE, _AFTER = 30, 100
_MOST_EXAMPLES = 10
# Indexes are made of the log again, and are large where they are allocated in advance.
_NOT_KEPT = shutil.ignore_patterns("*.index", "*.timeindex")
_COMING_BACK = RetryPolicy(PATIENCE_S, 0.1, 1.0)


@dataclass
class PauseReport:
    seed: int
    stage: str
    rounds: int = 0
    sent: int = 0
    acknowledged: int = 0
    terms: int = 0  # leader epochs in which batches were written
    bumps: int = 0  # producer epochs beyond the first of a round: the library gave up its sequences
    bumped_copies: int = 0  # records that are there twice, before and after a bump
    library: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in CLASSES})
    kept: list[Path] = field(default_factory=list)  # one directory for each bad round

    @property
    def is_sound(self) -> bool:
        return self.rounds > 0 and not any(self.findings.values())

    def __str__(self) -> str:
        counts = " ".join(f"{name}={len(texts)}" for name, texts in self.findings.items())
        line = (
            f"pause rounds: seed={self.seed} on {self.stage}, rounds={self.rounds} bad={len(self.kept)} "
            f"sent={self.sent} acknowledged={self.acknowledged} leader_terms={self.terms} "
            f"epoch_bumps={self.bumps} bumped_copies={self.bumped_copies} {counts}"
        )
        lines = [line]
        if self.library:
            lines.append(
                f"  librdkafka: {', '.join(f'{name} {count}' for name, count in sorted(self.library.items()))}"
            )
        for name, texts in self.findings.items():
            lines += [f"  {name}: {text}" for text in texts[:_MOST_EXAMPLES]]
        return "\n".join([*lines, *(f"  kept: {path}" for path in self.kept)])


@dataclass
class PauseRounds:
    """`kept_in` is where the data of bad rounds goes, each in a directory of its own."""

    scratch: Path
    rounds: int
    seed: int
    make_stage: Callable[[Path], Stage] = PenstockStage
    busy: int = BUSY
    pauses_s: Sequence[float] = PAUSES_S
    kept_in: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    say: Say = say_nothing

    def run(self) -> PauseReport:
        chance = random.Random(self.seed)
        with self.make_stage(self.scratch / "stage") as stage, BusyLoops(self.busy):
            report = PauseReport(self.seed, stage.name)
            self.say(f"{stage.name} runs, beside {self.busy} busy loops")
            for number in range(1, self.rounds + 1):
                victim, pause_s = chance.choice(sorted(stage.brokers)), chance.choice(self.pauses_s)
                _Round(stage, number, victim, pause_s, self).play(report)
        return report


class _Round:
    def __init__(self, stage: Stage, number: int, victim: int, pause_s: float, rounds: PauseRounds) -> None:
        self._stage = stage
        self._number = number
        self._victim = victim
        self._pause_s = pause_s
        self._rounds = rounds
        self._topic = f"paused-{number}"
        self._targets = [(self._topic, partition) for partition in range(PARTITIONS)]
        self._recorder = Recorder()
        setting = Setting(stage.bootstrap_servers, self._targets, self._recorder, rounds.seed)
        self._writer = Writer(setting, PATIENCE_S)
        self._placed: Mapping[Where, Sequence[Placed]] = {}

    def play(self, report: PauseReport) -> None:
        began = time.monotonic()
        self._attempt(self._write)
        self._attempt(self._read)
        found = sort_anomalies(judge_placed(self._placed, self._writer.log))
        found[OTHER] += self._recorder.problems
        is_bad = any(found.values())
        self._note(report, found)
        what = f"broker {self._victim} for {self._pause_s:g} s, {len(self._writer.log.offsets)} records"
        took_s = time.monotonic() - began
        self._rounds.say(f"{self._number:4} {what}, {took_s:.1f} s: {'BAD' if is_bad else 'ok'}")
        if is_bad:
            report.kept.append(self._keep(found))
            self._rounds.say(f"kept in {report.kept[-1]}")
        with suppress(OSError, ApiError, ClusterError):  # a topic that stays does no harm
            for name in (self._topic, self._topic_afterwards):
                self._stage.delete_topic(name)

    def _attempt(self, step: Callable[[], None]) -> None:
        """A cluster that does not come back is a finding. Partitions that could be read are judged nevertheless."""
        try:
            step()
        except (OSError, ApiError, ClusterError) as error:
            self._recorder.problems.append(f"{type(error).__name__}: {error}")

    def _write(self) -> None:
        self._stage.create_topic(self._topic, PARTITIONS)
        self._stage.wait_until_in_sync()
        self._writer.start()
        try:
            self._disturb()
            self._recover()
        finally:
            self._writer.end()
            self._writer.join()

    def _read(self) -> None:
        self._placed = asyncio.run(read_placed(self._stage.bootstrap_servers, self._targets))

    @property
    def _topic_afterwards(self) -> str:
        return f"afterwards-{self._number}"

    def _disturb(self) -> None:
        writer = self._writer
        writer.wait_for_more(_BEFORE)
        with _paused(self._stage.coordination):
            writer.wait_for_more(_BEFORE)
            with _paused(self._stage.brokers[self._victim]):
                time.sleep(self._pause_s)
            writer.wait_for_more(writer.waiting + _AFTER)

    def _recover(self) -> None:
        """All sessions may have ended, and begin anew: topics can be made again, and all replicas are in sync."""

        def create() -> None:
            try:
                self._stage.create_topic(self._topic_afterwards, 1)
            except ApiError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

        Retrying(_COMING_BACK).run(create, (ApiError, OSError, ClusterError), lambda _: Outlook.PASSING)
        self._stage.wait_until_in_sync()

    def _note(self, report: PauseReport, found: Mapping[str, Sequence[str]]) -> None:
        log = self._writer.log
        headers = [(target, each.header) for target, records in self._placed.items() for each in records]
        report.rounds += 1
        report.sent += len(log.offsets)
        report.acknowledged += log.acknowledged
        report.terms += len({(target, header.leader_epoch) for target, header in headers})
        report.bumps += max(0, len({(header.producer_id, header.producer_epoch) for _, header in headers}) - 1)
        report.bumped_copies += count_bumped(self._placed)
        report.library += self._writer.library.counts
        for name, texts in found.items():
            report.findings[name] += [f"round {self._number}: {text}" for text in texts]

    def _keep(self, found: Mapping[str, Sequence[str]]) -> Path:
        self._rounds.kept_in.mkdir(parents=True, exist_ok=True)
        prefix = f"penstock-pauses-{self._rounds.seed}-round-{self._number}-"
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=self._rounds.kept_in))
        with suppress(shutil.Error):  # the servers run, and may remove a file meanwhile
            shutil.copytree(self._stage.directory, directory / "stage", ignore=_NOT_KEPT)
        (directory / "librdkafka.log").write_text("\n".join(self._writer.library.lines))
        (directory / "findings.txt").write_text(
            "".join(f"{name}: {text}\n" for name, texts in found.items() for text in texts)
        )
        for (topic, partition), records in self._placed.items():
            rows = "".join(f"{each.name} at {each}\n" for each in records)
            (directory / f"{topic}-{partition}.txt").write_text(rows)
        return directory


@contextmanager
def _paused(process: Pausable) -> Iterator[None]:
    process.pause()
    try:
        yield
    finally:
        process.resume()


def run(task: Task) -> PauseReport:
    return run_on(task, PenstockStage)


def run_on(task: Task, make_stage: Callable[[Path], Stage]) -> PauseReport:
    busy = task.options["busy"]
    return PauseRounds(task.scratch, task.rounds, task.seed, make_stage, busy, say=task.say).run()
