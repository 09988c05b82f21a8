"""`penstock cluster start` as a user runs it: what it shows, what it says when it cannot, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from penstock.cli.errors import ExitCode
from penstock.processes.server_process import find_free_port
from tests.integration.cluster.cluster_command import PATIENCE_S, command, running


def fail(*arguments: str, **environment: str) -> tuple[int, str]:
    """The exit code and what is said of a start that cannot succeed."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stderr


@pytest.mark.usefixtures("java")
def test_cluster_stops_in_order_and_comes_back_when_it_is_interrupted_and_started_again(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running("--brokers", "1", "--port", "0", "--data", data) as first:
        address = first.wait_for(r"Brokers    (\S+)")[1]
        first.wait_for(rf"1  {address} +\d+  running  yes")
        first.wait_for(r"Topics: 0, partitions: 0 \(0 under-replicated, 0 offline\)")
        code, said = fail("--data", data)
        assert code == ExitCode.FAILURE
        assert "in use by another cluster" in said
        first.interrupt()
        assert first.wait() == ExitCode.SUCCESS
        assert first.text.endswith("Stopping broker 1 ...\nStopping ZooKeeper ...\nStopped.\n")
    with running("--data", data) as second:
        second.wait_for(rf"Brokers    {address}")
        second.wait_for("running  yes")
        second.process.terminate()
        assert second.wait() == ExitCode.SUCCESS


@pytest.mark.usefixtures("java")
def test_everything_ends_at_once_when_it_is_interrupted_again(tmp_path: Path) -> None:
    # A broker would wait 15 s for a controller that waits for ZooKeeper, and only then ZooKeeper's turn comes.
    at_once = ("--set", "controlled.shutdown.enable=false")
    with running("--brokers", "1", "--port", "0", "--data", str(tmp_path / "data"), *at_once) as cluster:
        pid = int(cluster.wait_for(r"1  127\.0\.0\.1:\d+ +(\d+)  running")[1])
        log = tmp_path / "data" / "zookeeper" / "zoo.cfg"
        zookeeper = _process_with(str(log))
        os.kill(zookeeper, signal.SIGSTOP)  # it will not hear that it is to stop
        cluster.interrupt()
        cluster.wait_for("Stopping ZooKeeper")
        cluster.interrupt()
        assert cluster.wait() == ExitCode.INTERRUPTED
        assert not Path(f"/proc/{pid}").exists()
        assert not Path(f"/proc/{zookeeper}").exists()


@pytest.mark.usefixtures("java")
def test_command_fails_and_says_how_to_bring_it_back_when_the_last_broker_is_killed() -> None:
    with running("--brokers", "1", "--port", "0") as cluster:
        os.kill(int(cluster.wait_for(r"1  127\.0\.0\.1:\d+ +(\d+)  running")[1]), signal.SIGKILL)
        assert cluster.wait() == ExitCode.FAILURE
        assert "broker 1 ended with signal SIGKILL" in cluster.text
        assert "penstock broker start --config" in cluster.text


def _process_with(argument: str) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
            return int(entry.name)
    raise AssertionError(f"no process has {argument}")


def test_other_ports_are_proposed_when_one_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", find_free_port())) as listener:
        port = listener.getsockname()[1]
        code, said = fail("--brokers", "1", "--port", str(port), "--data", str(tmp_path))
    assert code == ExitCode.FAILURE
    assert f"port {port} is in use" in said
    assert "another first port" in said


def test_java_is_asked_for_when_there_is_none(tmp_path: Path) -> None:
    code, said = fail("--port", "0", "--data", str(tmp_path), JAVA_HOME=str(tmp_path / "nowhere"))
    assert code == ExitCode.FAILURE
    assert "ZooKeeper needs Java" in said


def test_zookeeper_of_its_own_is_proposed_when_the_named_one_does_not_answer(tmp_path: Path) -> None:
    code, said = fail("--zookeeper", f"127.0.0.1:{find_free_port()}/kafka", "--data", str(tmp_path))
    assert code == ExitCode.UNREACHABLE
    assert "leave --zookeeper out" in said


def test_form_is_told_when_the_named_zookeeper_is_no_address() -> None:
    code, said = fail("--zookeeper", "127.0.0.1:none")
    assert code == ExitCode.USAGE
    assert "HOST:PORT" in said


def test_setting_is_refused_before_zookeeper_is_started_when_it_makes_no_sense(tmp_path: Path) -> None:
    code, said = fail("--port", "0", "--data", str(tmp_path / "data"), "--set", "min.insync.replicas=abc")
    assert code == ExitCode.FAILURE
    assert "min.insync.replicas" in said
    assert not (tmp_path / "data" / "zookeeper").exists()


def test_setting_is_refused_when_the_cluster_chooses_it(tmp_path: Path) -> None:
    code, said = fail("--port", "0", "--data", str(tmp_path), "--set", "broker.id=7")
    assert code == ExitCode.FAILURE
    assert "broker.id" in said
