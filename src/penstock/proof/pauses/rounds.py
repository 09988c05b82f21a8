"""Rounds of one fault: what coordinates a cluster stands still, and meanwhile one of three brokers does, too.

    python -m penstock.proof pauses --rounds 200 --seed 7
    python -m penstock.proof pauses --rounds 20 --busy 0

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

from penstock.client.retrying import Outlook, Retrying, RetryPolicy
from penstock.local_cluster.errors import ClusterError
from penstock.proof.fleet.client import Setting
from penstock.proof.frame import Say, Task, say_nothing
from penstock.proof.pauses.busy import BusyLoops
from penstock.proof.pauses.placed import Placed, judge_placed, read_placed
from penstock.proof.pauses.stage import PATIENCE_S, Pausable, PenstockStage, Stage
from penstock.proof.pauses.writer import Writer
from penstock.proof.recorder import Recorder
from penstock.proof.verdict import CLASSES, OTHER, sort_anomalies
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.history import Where

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
    epochs: int = 0  # of producers: more than one in a round where the library bumped its epoch
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
            f"epoch_bumps={self.epochs - self.rounds} {counts}"
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
                _Round(stage, number, self.seed, victim, pause_s, report, self).play()
        return report


@dataclass
class _Round:
    stage: Stage
    number: int
    seed: int
    victim: int
    pause_s: float
    report: PauseReport
    rounds: PauseRounds

    def play(self) -> None:
        began = time.monotonic()
        topic = f"paused-{self.number}"
        targets = [(topic, partition) for partition in range(PARTITIONS)]
        self.stage.create_topic(topic, PARTITIONS)
        self.stage.wait_until_in_sync()
        recorder = Recorder()
        writer = Writer(Setting(self.stage.bootstrap_servers, targets, recorder, self.seed), PATIENCE_S)
        writer.start()
        try:
            self._disturb(writer)
            self._recover()
        except (TimeoutError, ClusterError) as error:
            recorder.problems.append(str(error))
        finally:
            writer.end()
            writer.join()
        placed = asyncio.run(read_placed(self.stage.bootstrap_servers, targets))
        found = sort_anomalies(judge_placed(placed, writer.log))
        found[OTHER] += recorder.problems
        self._note(writer, placed, found)
        what = f"broker {self.victim} for {self.pause_s:g} s, {len(writer.log.offsets)} records"
        self.rounds.say(
            f"{self.number:4} {what}, {time.monotonic() - began:.1f} s: {'BAD' if _is_bad(found) else 'ok'}"
        )
        if _is_bad(found):
            self._keep(writer, placed, found)
        for name in (topic, self._topic_afterwards):
            self.stage.delete_topic(name)

    @property
    def _topic_afterwards(self) -> str:
        return f"afterwards-{self.number}"

    def _disturb(self, writer: Writer) -> None:
        writer.wait_for_more(_BEFORE)
        with _paused(self.stage.coordination):
            writer.wait_for_more(_BEFORE)
            with _paused(self.stage.brokers[self.victim]):
                time.sleep(self.pause_s)
            writer.wait_for_more(writer.waiting + _AFTER)

    def _recover(self) -> None:
        """All sessions may have ended, and begin anew: topics can be made again, and all replicas are in sync."""

        def create() -> None:
            try:
                self.stage.create_topic(self._topic_afterwards, 1)
            except ApiError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

        Retrying(_COMING_BACK).run(create, (ApiError, OSError, ClusterError), lambda _: Outlook.PASSING)
        self.stage.wait_until_in_sync()

    def _note(
        self, writer: Writer, placed: Mapping[Where, Sequence[Placed]], found: Mapping[str, Sequence[str]]
    ) -> None:
        report = self.report
        headers = [(target, each.header) for target, records in placed.items() for each in records]
        report.rounds += 1
        report.sent += len(writer.log.offsets)
        report.acknowledged += writer.log.acknowledged
        report.terms += len({(target, header.leader_epoch) for target, header in headers})
        report.epochs += len({(header.producer_id, header.producer_epoch) for _, header in headers})
        report.library += writer.library.counts
        for name, texts in found.items():
            report.findings[name] += [f"round {self.number}: {text}" for text in texts]

    def _keep(
        self, writer: Writer, placed: Mapping[Where, Sequence[Placed]], found: Mapping[str, Sequence[str]]
    ) -> None:
        self.rounds.kept_in.mkdir(parents=True, exist_ok=True)
        prefix = f"penstock-pauses-{self.seed}-round-{self.number}-"
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=self.rounds.kept_in))
        with suppress(shutil.Error):  # the servers run, and may remove a file meanwhile
            shutil.copytree(self.stage.directory, directory / "stage", ignore=_NOT_KEPT)
        (directory / "librdkafka.log").write_text("\n".join(writer.library.lines))
        (directory / "findings.txt").write_text(
            "".join(f"{name}: {text}\n" for name, texts in found.items() for text in texts)
        )
        for (topic, partition), records in placed.items():
            rows = "".join(f"{each.name} at {each}\n" for each in records)
            (directory / f"{topic}-{partition}.txt").write_text(rows)
        self.report.kept.append(directory)
        self.rounds.say(f"kept in {directory}")


def _is_bad(found: Mapping[str, Sequence[str]]) -> bool:
    return any(found.values())


@contextmanager
def _paused(process: Pausable) -> Iterator[None]:
    process.pause()
    try:
        yield
    finally:
        process.resume()


def run(task: Task, make_stage: Callable[[Path], Stage] = PenstockStage) -> PauseReport:
    busy = task.options["busy"]
    return PauseRounds(task.scratch, task.rounds, task.seed, make_stage, busy, say=task.say).run()
