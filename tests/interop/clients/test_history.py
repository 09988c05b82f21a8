"""The same histories from Apache Kafka and from Penstock: the checker must find nothing wrong with either."""

from __future__ import annotations

import random

from penstock.testing.history import Outcome
from penstock.testing.history.run import HistoryRun
from penstock.testing.processes import ServerProcess
from proof.history.rounds import Faults


def run_history(broker: ServerProcess, *faults: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"history with seed {seed}")  # shown by pytest when the test fails
    run = HistoryRun(broker.bootstrap_servers, 15.0, seed, disturb=Faults(broker, seed, faults, print).inject)
    report = run.run()
    print(report)
    assert report.is_sound, "\n".join([str(report), *map(str, report.history.anomalies)])
    assert report.history.sent > 100
    assert any(operation.transaction and operation.outcome is Outcome.OK for operation in run.operations)


def test_history_has_no_anomaly_when_nothing_disturbs_the_broker(broker: ServerProcess) -> None:
    run_history(broker)


def test_history_has_no_anomaly_when_the_broker_is_paused(broker: ServerProcess) -> None:
    run_history(broker, "pause")
