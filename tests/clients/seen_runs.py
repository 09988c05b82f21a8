"""What is seen of fake runs by way of the command line, against any broker."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.cli_runner import Cli

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 30.0


def unique_name() -> str:
    return f"jobs-{uuid.uuid4().hex[:8]}"


@contextmanager
def fake_run(cli: Cli, name: str, batch_s: float = 0.1) -> Iterator[subprocess.Popen[bytes]]:
    """The run is seen by others when the block begins."""
    before = len(runs_of(cli, name))
    command = [sys.executable, "-m", "tests.clients.fake_run", cli.bootstrap_servers, name, str(batch_s)]
    process = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        wait_until(lambda: len(runs_of(cli, name)) > before)
        yield process
    finally:
        process.kill()
        process.wait()


def runs_of(cli: Cli, name: str) -> list[dict[str, Any]]:
    listed = cli.run("pipeline", "list", "--all", "--json").json
    return [run for run in listed if run["name"] == name]


def run_of(cli: Cli, name: str) -> dict[str, Any]:
    (run,) = runs_of(cli, name)
    return run


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not become so in time"
        time.sleep(0.05)


def see_a_run_paused_resumed_restarted_and_stopped(cli: Cli) -> None:
    """One story, told to every broker."""
    name = unique_name()
    with fake_run(cli, name) as process:
        wait_until(lambda: run_of(cli, name)["rows_in_per_s"] > 0)
        run = run_of(cli, name)
        assert (run["state"], run["lag"], run["pid"]) == ("running", 5, process.pid)
        assert run["heartbeat_age_ms"] < 1500
        assert f"{run['run']}: paused" in cli.run("pipeline", "pause", name).text
        paused = run_of(cli, name)
        assert paused["state"] == "paused"
        assert "was paused already" in cli.run("pipeline", "pause", run["run"]).text
        assert run_of(cli, name)["parts"] == paused["parts"]
        assert f"{run['run']}: running" in cli.run("pipeline", "resume", name).text
        assert f"{run['run']}: restarted" in cli.run("pipeline", "restart", name).text
        assert run_of(cli, name)["restarts"] == 1
        assert f"{run['run']}: stopped" in cli.run("pipeline", "stop", name).text
        assert process.wait(PATIENCE_S) == 0
    assert run_of(cli, name)["state"] == "stopped"
    listed = cli.run("pipeline", "list", "--running", "--json").json
    assert name not in {run["name"] for run in listed}
    gone = cli.try_run("pipeline", "resume", name)
    assert gone.code == 1
    assert f"{run['run']} has stopped" in gone.err
