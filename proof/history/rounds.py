"""Record a history with real clients and judge it.

    python -m proof history --seconds 20 --seed 7
    python -m proof history --bootstrap HOST:PORT --seconds 20 --out history.jsonl
    python -m proof history --check history.jsonl

Without `--bootstrap` a broker is started for the run, and killed (SIGKILL) and paused (SIGSTOP) under load. The seed
decides what the clients and the faults do. The run itself is `penstock.testing.history.run`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from penstock.testing.history import write_history
from penstock.testing.history.run import (
    HistoryRun,
    HistoryRunReport,
    SavedReport,
    check_file,
    leave_alone,
    show_anomalies,
)
from penstock.testing.processes import BrokerProcess, ServerProcess
from proof.frame import Say, Task, say_nothing

_UPTIME_S = (0.3, 2.0)
_DOWNTIME_S = (0.0, 0.5)
_PAUSE_S = (0.05, 1.5)
BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
FAULTS = ("kill", "pause")


@dataclass(frozen=True, slots=True)
class Faults:
    """Kills and pauses a broker while the clients of a run use it."""

    server: ServerProcess
    seed: int
    names: Sequence[str] = FAULTS
    say: Say = say_nothing

    def inject(self, seconds: float) -> Mapping[str, int]:
        """Injects faults until the time is over. Returns how many of each."""
        if not self.names:
            return leave_alone(seconds)
        ends_at = time.monotonic() + seconds
        random_numbers = random.Random(self.seed)
        injected = dict.fromkeys(self.names, 0)
        while True:
            time.sleep(min(random_numbers.uniform(*_UPTIME_S), max(0.0, ends_at - time.monotonic())))
            if time.monotonic() >= ends_at:
                return injected
            fault = random_numbers.choice(tuple(self.names))
            self.say(f"{fault} the broker")
            injected[fault] += 1
            {"kill": _kill, "pause": _pause}[fault](self.server, random_numbers)


def _kill(server: ServerProcess, random_numbers: random.Random) -> None:
    server.kill()
    time.sleep(random_numbers.uniform(*_DOWNTIME_S))
    server.start()


def _pause(server: ServerProcess, random_numbers: random.Random) -> None:
    server.pause()
    try:
        time.sleep(random_numbers.uniform(*_PAUSE_S))
    finally:
        server.resume()


def run(task: Task) -> SavedReport | HistoryRunReport:
    options = task.options
    if options["check"]:
        saved = check_file(options["check"])
        show_anomalies(saved)
        return SavedReport(saved)
    topics, partitions = options["topics"], options["partitions"]
    with ExitStack() as stack:
        if options["bootstrap"]:
            history = HistoryRun(options["bootstrap"], task.count, task.seed, topics, partitions)
        else:
            server = stack.enter_context(BrokerProcess(task.scratch / "data", config=BROKER_CONFIG))
            faults = Faults(server, task.seed, options["faults"], task.say)
            history = HistoryRun(server.bootstrap_servers, task.count, task.seed, topics, partitions, faults.inject)
        report = history.run()
    write_history(options["out"] or task.scratch / "history.jsonl", history.operations, history.final)
    show_anomalies(report.history)
    return report
