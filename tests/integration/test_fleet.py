"""Every habit of a transactional sender really happens, and the broker comes to rest after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.fleet.client import Setting
from penstock.testing.fleet.recorder import Recorder
from penstock.testing.fleet.transactions import Habits, TransactionalSender
from penstock.testing.history import Outcome
from penstock.testing.history.run import read_to_the_end
from penstock.testing.history_check import Expectations, check
from penstock.testing.processes import BrokerProcess
from proof.history.rounds import BROKER_CONFIG

FATES = {
    "commit": Habits(commit=1, abort=0, leave=0, zombie=0, vanish=0, offsets=0.5),
    "abort": Habits(commit=0, abort=1, leave=0, zombie=0, vanish=0, offsets=0.5),
    "leave": Habits(commit=0, abort=0, leave=1, zombie=0, vanish=0, offsets=0.5),
    "zombie": Habits(commit=0, abort=0, leave=0, zombie=1, vanish=0, offsets=0.5),
    "vanish": Habits(commit=0, abort=0, leave=0, zombie=0, vanish=1, offsets=0.5),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("fleet")) / "data", config=BROKER_CONFIG) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("fate", FATES)
def test_transactions_end_as_they_should_when_a_sender_has_one_habit(servers: str, fate: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(fate, 2, 1)])[fate].result(10)
    targets, recorder = [(fate, 0), (fate, 1)], Recorder()
    sender = TransactionalSender(fate, Setting(servers, targets, recorder, seed=1), FATES[fate])
    sender.start()
    deadline = time.monotonic() + 30
    while len(recorder.operations) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    sender.end()
    sender.join(30)
    history = recorder.operations
    final, problems = read_to_the_end(servers, targets)
    assert [*problems, *recorder.problems] == []
    assert len(history) >= 3
    assert {operation.outcome for operation in history} == {Outcome.OK if fate == "commit" else Outcome.FAILED}
    assert all(operation.actions for operation in history)
    report = check(history, final=final, expected=Expectations(ordered=[sender.process], is_complete=True))
    assert report.is_sound, str(report)
    assert any(final.values()) is (fate == "commit")
