"""Hostile connections by the hundred, at once and one after the other, beside a good client that must not suffer.

    python -m proof hostile --rounds 500 --seed 7

Afterwards the broker still runs, holds as many files and about as much memory as before, has logged no traceback, and
the good client has every record it was promised, in order, without a long wait.
"""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.client.connection import BlockingConnection
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.testing.processes import BrokerProcess
from proof.frame import Say, Task, say_nothing
from proof.hostile.clients import GoodClient, HostileSocket
from proof.hostile.habits import BATCH, HABITS, NONSENSE, TOPIC, WRONG_ORDER, produce_frame
from proof.hostile.odd_names import MAX_HELD, RETURNING_ALLOCATOR, SHORT_MEMORY, measure_held
from proof.memory import count_open_files, resident_size

_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "3",
}
_BULK_BATCHES = 1_000  # 20 KB each: clients that never read their answers ask for these records again and again
# What the crowd may cost while it is there and after: buffers of a few hundred connections, and codecs of every API.
_MAX_GROWTH = 120 * 1024 * 1024
_MAX_MORE_FILES = 20
_LONGEST_WAIT_S = 5.0
_PATIENCE_S = 30.0
_MOST_STEPS = 200
_RECORDS_IN_THE_CROWD = 300  # that the good client gets through while all of them are there
_ALARMS = ("Traceback", "never retrieved", "was destroyed", "never awaited", "socket.send() raised")
_MOST_EXAMPLES = 10


@dataclass
class HostileReport:
    seed: int
    at_once: int = 0
    in_turn: int = 0
    habits: Counter[str] = field(default_factory=Counter)
    records: int = 0
    median_s: float = 0.0
    worst_s: float = 0.0
    most_growth: int = 0
    growth: int = 0
    more_files: int = 0
    held: int = 0  # bytes above the baseline after odd names and silence
    elapsed_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        line = (
            f"hostile: seed {self.seed}, {self.at_once} connections at once and {self.in_turn} in turn, "
            f"{len(self.habits)} habits, in {self.elapsed_s:.0f} s; good client: {self.records:,} records, latency "
            f"median {self.median_s * 1000:.0f} ms, worst {self.worst_s * 1000:.0f} ms; memory at most "
            f"+{self.most_growth >> 20} MB, +{self.growth >> 20} MB at the end, {self.more_files:+d} files, "
            f"+{self.held >> 20} MB held after odd names, "
            f"{len(self.findings)} findings"
        )
        return "\n".join([line, *(f"  {text}" for text in self.findings[:_MOST_EXAMPLES])])


@dataclass
class HostileRounds:
    scratch: Path
    connections: int
    seed: int
    say: Say = say_nothing

    def run(self) -> HostileReport:
        report = HostileReport(self.seed)
        started = time.monotonic()
        _raise_file_limit()
        dice = random.Random(self.seed)
        process = BrokerProcess(self.scratch / "data", config=_CONFIG)
        with process:
            _fill(process)
            good = GoodClient(process.bootstrap_servers, "good").start()
            try:
                good.wait_for_progress(100)
                self._attack(process, good, dice, report)
            except AssertionError as error:
                report.findings.append(str(error))
            finally:
                good.stop()
            self._judge(good, report)
        log = process.read_log()
        report.findings += [f"the broker's log has {alarm!r}" for alarm in _ALARMS if alarm in log]
        report.held = self._be_odd()
        if report.held > MAX_HELD:
            report.findings.append(f"{report.held >> 20} MB are held after odd names and silence")
        report.elapsed_s = time.monotonic() - started
        return report

    def _be_odd(self) -> int:
        """Runs the odd names on a broker of their own, whose memory nobody else has touched."""
        config = {**_CONFIG, **SHORT_MEMORY}
        with BrokerProcess(self.scratch / "odd", config=config, environment=RETURNING_ALLOCATOR) as process:
            _create_topics(process)
            return measure_held(process, TOPIC, self.say)

    def _attack(self, process: BrokerProcess, good: GoodClient, dice: random.Random, report: HostileReport) -> None:
        # Once everything before counting, so that what is made on first use is not taken for a leak.
        for name in HABITS:
            _run_alone(process, name, dice)
        size, files = resident_size(process.pid), count_open_files(process.pid)
        good.latencies_s.clear()
        self._come_at_once(process, good, size, dice, report)
        self.say(f"{report.at_once} at once: +{report.most_growth >> 20} MB")
        good.wait_for_progress()
        for _ in range(self.connections):
            name = dice.choice(sorted(HABITS))
            problem = _run_alone(process, name, dice)
            report.findings += [f"{name}: {problem}"] if problem else []
            report.habits[name] += 1
            report.in_turn += 1
        good.wait_for_progress()
        if not process.is_running:
            report.findings.append("the broker has ended")
            return
        report.more_files = _wait_for_files(process.pid, files + _MAX_MORE_FILES) - files
        report.growth = resident_size(process.pid) - size

    def _come_at_once(
        self, process: BrokerProcess, good: GoodClient, size: int, dice: random.Random, report: HostileReport
    ) -> None:
        crowd: list[tuple[HostileSocket, Iterator[None]]] = []
        for _ in range(self.connections):
            name = dice.choice(sorted(HABITS))
            connection = HostileSocket(process.bootstrap_servers, receive_buffer_size=8_192)
            crowd.append((connection, HABITS[name](connection, dice)))
            report.habits[name] += 1
        report.at_once = len(crowd)
        going = list(crowd)
        for _ in range(_MOST_STEPS):
            going = [(connection, steps) for connection, steps in going if _step(steps)]
            report.most_growth = max(report.most_growth, resident_size(process.pid) - size)
            if not going:
                break
        good.wait_for_progress(_RECORDS_IN_THE_CROWD)
        report.most_growth = max(report.most_growth, resident_size(process.pid) - size)
        for connection, _ in dice.sample(crowd, len(crowd)):
            (connection.reset if connection.is_open and dice.random() < 0.5 else connection.close)()

    @staticmethod
    def _judge(good: GoodClient, report: HostileReport) -> None:
        report.findings += [f"the good client: {text}" for text in good.errors[:3]]
        report.records = good.consumed
        latencies = sorted(good.latencies_s)
        if latencies:
            report.median_s, report.worst_s = latencies[len(latencies) // 2], latencies[-1]
        for name, value, most in (
            ("the longest wait of the good client", report.worst_s, _LONGEST_WAIT_S),
            ("the most memory", report.most_growth, _MAX_GROWTH),
            ("the memory at the end", report.growth, _MAX_GROWTH),
            ("the number of open files", report.more_files, _MAX_MORE_FILES),
        ):
            if value > most:
                report.findings.append(f"{name} grew to {value}; at most {most} was expected")


def _step(steps: Iterator[None]) -> bool:
    """Whether there is more to come. A broker that closes on a hostile client is right."""
    try:
        next(steps)
    except (StopIteration, OSError):
        return False
    return True


def _run_alone(process: BrokerProcess, name: str, dice: random.Random) -> str | None:
    """One connection from beginning to end; what was wrong with how it was treated."""
    with HostileSocket(process.bootstrap_servers) as connection:
        if name in NONSENSE:
            connection.send(NONSENSE[name])
            return None if connection.is_closed_by_broker() else "the connection stays open"
        if name in WRONG_ORDER:
            connection.send(WRONG_ORDER[name])
            return None if connection.receive_frame() else "no answer"
        steps = HABITS[name](connection, dice)
        for _ in range(_MOST_STEPS):
            if not _step(steps):
                break
    return None


def _create_topics(process: BrokerProcess) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (TOPIC, "good")]
    with BlockingConnection(process.host, process.port) as connection:
        connection.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)


def _fill(process: BrokerProcess) -> None:
    _create_topics(process)
    with HostileSocket(process.bootstrap_servers) as writer:
        for _ in range(_BULK_BATCHES):
            writer.send(produce_frame(1, BATCH))
            writer.receive_frame()


def _wait_for_files(pid: int, enough: int) -> int:
    """How many there are once connections that were dropped are gone, or patience is."""
    deadline = time.monotonic() + _PATIENCE_S
    while (count := count_open_files(pid)) > enough and time.monotonic() < deadline:
        time.sleep(0.05)
    return count


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(task: Task) -> HostileReport:
    return HostileRounds(task.scratch, task.rounds, task.seed, task.say).run()
