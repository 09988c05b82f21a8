"""`make often` with real rounds and real busy loops, on tests that need nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import often

# The command, with a place for its logs.
COMMAND = "import often, pathlib, sys; sys.exit(often.main(sys.argv[2:], pathlib.Path(sys.argv[1])))"

# Fails in every second round. The rounds have directories of their own.
EVERY_SECOND = """
import pathlib

def test_now_and_then(tmp_path):
    assert not list(tmp_path.iterdir())
    count = pathlib.Path(__file__).with_name("count")
    number = int(count.read_text()) + 1 if count.exists() else 1
    count.write_text(str(number))
    assert number % 2

def test_always():
    pass
"""

# Says that it has begun, and that it was given the chance to clean up.
WITH_A_SERVER = """
import pathlib, time
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.fixture
def server():
    (HERE / "begun").touch()
    yield
    (HERE / "stopped").touch()

def test_that_takes_long(server):
    time.sleep(600)
"""


def write_test(directory: Path, text: str) -> str:
    path = directory / "test_sample.py"
    path.write_text(text)
    return str(path)


def start_python(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.02)


def test_logs_of_failed_rounds_stay_when_others_are_removed(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    lines: list[str] = []
    sample = write_test(tmp_path, EVERY_SECOND)
    assert often.run(often.Choice([sample], rounds=2), logs, lines.append) == 1
    assert [path.name for path in logs.iterdir()] == ["round-02.log"]
    log = (logs / "round-02.log").read_text()
    assert "FAILURES" in log
    assert re.fullmatch(r"round 2 of 2: 1 failed, 1 passed in \d+ s: test_now_and_then", lines[1])
    assert lines[2].startswith("2 of 2 rounds ran, 1 failed")
    assert re.match(r"1 of 2 .*test_sample.py::test_now_and_then$", lines[3])
    # The command that repeats the round stands in both places, with its seed.
    assert lines[-1] == f"round-02 again: {log.splitlines()[0]}"
    assert re.search(r"--hypothesis-seed=\d+$", lines[-1])


def test_rounds_end_at_once_when_nothing_is_collected(tmp_path: Path) -> None:
    lines: list[str] = []
    sample = write_test(tmp_path, EVERY_SECOND)
    assert often.run(often.Choice([sample, "-k", "nothing"], rounds=3), tmp_path, lines.append) == 1
    assert lines[1].startswith("1 of 3 rounds ran")


def test_no_round_begins_when_the_time_is_up(tmp_path: Path) -> None:
    lines: list[str] = []
    sample = write_test(tmp_path, EVERY_SECOND)
    assert often.run(often.Choice([sample], rounds=3, minutes=-1), tmp_path, lines.append) == 0
    assert lines == ["0 of 3 rounds ran, none failed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_test_stops_its_servers_when_the_command_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    sample = write_test(tmp_path, WITH_A_SERVER)
    arguments = [str(tmp_path / "runs"), sample, "--busy", "1", "--rounds", "2"]
    with start_python(COMMAND, *arguments) as process:
        wait_for(tmp_path / "begun")
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert (tmp_path / "stopped").exists()
    assert output.splitlines()[-1] == "0 of 2 rounds ran, none failed"
    assert not any(child.is_running() for child in children)


def test_busy_loops_end_when_the_command_is_killed() -> None:
    program = (
        "import time\n"
        "from proof.busy_loops import BusyLoops\n"
        "with BusyLoops(2) as loops:\n"
        "    print(*loops.pids, flush=True)\n"
        "    time.sleep(600)"
    )
    with start_python(program) as process:
        assert process.stdout is not None
        loops = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert all(loop.is_running() for loop in loops)
        process.kill()
    gone, alive = psutil.wait_procs(loops, timeout=60)
    assert (len(gone), alive) == (2, [])
