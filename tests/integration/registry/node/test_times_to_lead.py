"""How long writes wait when the leading instance goes, with the settings that everybody has.

A time begins with the signal and ends when the instance that stays has answered a registration. The page of
reliability has the figures.
"""

from __future__ import annotations

import http.client
import signal
import statistics
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.testing.processes import BrokerProcess, RegistryProcess
from tests.integration.registry.node.rounds import ask, schema_text

TRIES = 10
# A session, and the second in which the brokers and the next leader do the rest.
AFTER_A_KILL_S = 6.0 + 1.0
AFTER_A_STOP_S = 3.0
PATIENCE_S = 60.0


def register_by_any_means(port: int, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            status, _ = ask(port, "POST", f"/subjects/s{number}/versions", {"schema": schema_text(number)})
        except (OSError, http.client.HTTPException):
            continue
        if status == 200:
            return
        time.sleep(0.02)
    raise AssertionError("no instance leads")


@pytest.mark.soak
@pytest.mark.parametrize(("sent", "goal_s"), [(signal.SIGTERM, AFTER_A_STOP_S), (signal.SIGKILL, AFTER_A_KILL_S)])
def test_another_instance_leads_in_time_when_settings_are_those_of_everybody(
    tmp_path: Path, sent: signal.Signals, goal_s: float
) -> None:
    waits = []
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path / "data"))

        def start(number: int) -> RegistryProcess:
            log_path = tmp_path / f"registry-{number}.log"
            return stack.enter_context(RegistryProcess(broker.bootstrap_servers, log_path))

        leader = start(0)
        for number in range(1, TRIES + 1):
            follower = start(number)
            register_by_any_means(follower.port, 2 * number)
            leader.process.send_signal(sent)
            began = time.monotonic()
            register_by_any_means(follower.port, 2 * number + 1)
            waits.append(time.monotonic() - began)
            leader.kill()
            leader = follower
    waits.sort()
    print(f"{sent.name}: median {statistics.median(waits):.2f} s, worst {waits[-1]:.2f} s of {TRIES}")
    assert waits[-1] < goal_s
