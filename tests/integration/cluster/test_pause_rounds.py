"""ZooKeeper and a broker stand still; see penstock.proof.pauses.rounds for what runs and what is checked."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.proof.pauses.rounds import BUSY, PAUSES_S, PauseRounds

# Just longer than a lease and a session of 2 s: both end in the pause.
SHORT_PAUSE_S = 2.1


def run_rounds(directory: Path, rounds: int, pauses_s: Sequence[float], busy: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pause rounds with seed {seed}")  # shown by pytest when the test fails
    kept_in = directory / "bad"
    report = PauseRounds(directory, rounds, seed, busy=busy, pauses_s=pauses_s, kept_in=kept_in, say=print).run()
    print(report)
    assert report.is_sound, str(report)
    assert report.rounds == rounds
    assert report.acknowledged == report.sent > 100 * rounds
    assert report.library["refused"] > 0  # the pauses were felt


def test_each_record_is_there_once_when_zookeeper_and_a_broker_stand_still(tmp_path: Path) -> None:
    run_rounds(tmp_path, 2, [SHORT_PAUSE_S], busy=0)


@pytest.mark.soak
def test_each_record_is_there_once_when_zookeeper_and_a_broker_stand_still_two_hundred_times(tmp_path: Path) -> None:
    run_rounds(tmp_path, 200, PAUSES_S, BUSY)


def test_busy_loops_end_when_their_parent_is_killed() -> None:
    program = (
        "import sys, time\nfrom penstock.proof.pauses.busy import BusyLoops\n"
        "with BusyLoops(1) as loops:\n    print(*loops.pids, flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        loop = int(parent.stdout.readline())
        os.kill(loop, 0)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_running(loop):
        assert time.monotonic() < deadline, "the loop goes on"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # nobody waits for an orphan where the first process does not
