"""A program that dies inside `with penstock.Cluster()` leaves no processes behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.core.guardian import Guardian, read_start, watch_over
from penstock.processes.zookeeper_jars import ZooKeeperMissingError, find_class_path, find_java
from tests.clients.support import eventually
from tests.integration.cluster.test_local_cluster import is_alive

_PROGRAM = """
import sys, time
import penstock
with penstock.Cluster(1, sys.argv[1]) as cluster:
    if sys.argv[2] == "paused":
        cluster.pause(1)
    print(cluster.members.zookeeper.pid, cluster.brokers[0].pid, flush=True)
    time.sleep(3600)
"""


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)


def first_numbers(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


@pytest.mark.parametrize(("signal_number", "state"), [(signal.SIGTERM, "running"), (signal.SIGKILL, "paused")])
def test_brokers_and_zookeeper_end_when_the_program_that_started_them_dies(
    tmp_path: Path, signal_number: signal.Signals, state: str
) -> None:
    try:
        find_java()
        find_class_path()
    except ZooKeeperMissingError as error:
        pytest.skip(str(error))
    with start("-c", _PROGRAM, str(tmp_path / "data"), state) as program:
        pids = first_numbers(program)
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        program.send_signal(signal_number)
    eventually(lambda: not any(map(is_alive, pids)), "the end of the processes")


def test_only_what_still_runs_is_ended_when_the_guardian_is_closed() -> None:
    sleeper = "import time; time.sleep(3600)"
    kept, ended, moved = (
        subprocess.Popen([sys.executable, "-c", sleeper], process_group=group) for group in (0, 0, os.getpgrp())
    )
    guardian = Guardian()
    for process in (kept, ended, moved):
        guardian.watch(process.pid, 0)
    guardian.forget(kept.pid)
    closing = threading.Thread(target=guardian.close)
    closing.start()
    assert ended.wait() == -signal.SIGTERM
    closing.join()
    for process in (kept, moved):
        assert process.poll() is None
        process.kill()
        process.wait()


@pytest.mark.skipif(read_start(os.getpid()) == 0, reason="the system does not tell when a process was started")
def test_another_process_is_left_alone_when_it_has_the_number_of_one_that_ended() -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], process_group=0)
    watch_over([f"watch {other.pid} 0 {read_start(other.pid) - 1}"])
    assert other.poll() is None
    other.kill()
    other.wait()
