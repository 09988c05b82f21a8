"""One broker after the other is restarted while an application goes on and hears of nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import penstock
from penstock.local_cluster.errors import ClusterError
from tests.clients.cli_runner import Cli
from tests.clients.confluent import admin_of
from tests.integration.cluster.application import Application, check
from tests.integration.cluster.cluster_command import Running, running

PATIENCE_S = 120.0


def setting(servers: str, node_id: int, key: str) -> str:
    described = Cli(servers).run("configs", "describe", "--broker", str(node_id), "--all", "--json").json
    return next(str(entry["value"]) for entry in described["settings"] if entry["name"] == key)


class TestInMemory:
    def test_application_hears_of_nothing_when_all_brokers_are_restarted_with_another_setting(self) -> None:
        with penstock.Cluster(3, store="memory", config={"offsets.topic.num.partitions": 3}) as cluster:
            cluster.create_topic("t", partitions=6, replication_factor=3)
            with Application(cluster.bootstrap_servers, "t") as application:
                cluster.restart({"num.partitions": 7})
            check(application)
            assert {setting(cluster.bootstrap_servers, node_id, "num.partitions") for node_id in (1, 2, 3)} == {"7"}
            state = cluster.states()[1]
            assert state is not None
            assert min(state.led.values()) == max(state.led.values()) == 3  # of both topics

    def test_restart_is_refused_when_a_partition_has_no_other_replica(self) -> None:
        with penstock.Cluster(2, store="memory") as cluster:
            cluster.create_topic("t", replication_factor=1)
            with pytest.raises(ClusterError, match=r"1 partition \(t-0\) would stand still"):
                cluster.restart()
            with pytest.raises(ClusterError, match="the cluster chooses this"):
                cluster.restart({"broker.id": 5}, may_interrupt=True)
            cluster.restart(may_interrupt=True)
            cluster.wait_until_in_sync()

    def test_command_says_what_it_would_do_and_what_stops_it(self) -> None:
        with penstock.Cluster(2, store="memory") as cluster:
            cluster.create_topic("t", replication_factor=2)
            controller = cluster.controller_id()
            other = 3 - controller
            cli = Cli(cluster.bootstrap_servers)
            lines = cli.run("cluster", "restart", "--dry-run").text.splitlines()
            assert [line.split(" at ")[0] for line in lines] == [f"broker {other}", f"broker {controller}"]
            assert lines[1].endswith("the controller")
            assert cli.run("cluster", "restart", "--check", str(other)).err.endswith(f"Broker {other} may stop.\n")
            assert "all is well" in cli.run("cluster", "restart", "--wait", str(other)).err
            assert cli.try_run("cluster", "restart").code == 2
            unknown = cli.try_run("cluster", "restart", "--check", "9")
            assert (unknown.code, "there is no broker 9" in unknown.err) == (2, True)
            assert cli.try_run("cluster", "restart", "--by-hand", "--broker", "9").code == 2
            failing = cli.try_run("cluster", "restart", "--command", f"{sys.executable} -c exit({{id}})")
            assert (failing.code, f"broker {other}: the command ended with {other}" in failing.err) == (1, True)

    def test_command_goes_on_when_the_broker_of_its_command_is_back(self, tmp_path: Path) -> None:
        with penstock.Cluster(2, store="memory") as cluster:
            cluster.create_topic("t", partitions=2, replication_factor=2)
            machines = Machines(cluster, tmp_path / "asked")
            with machines:
                done = Cli(cluster.bootstrap_servers).run("cluster", "restart", "--command", machines.command)
            assert sorted(machines.restarted) == [1, 2]
            assert done.err.endswith("Restarted 2 brokers.\n")

    def test_command_stops_and_says_how_to_go_on_when_a_broker_does_not_come_back(self, tmp_path: Path) -> None:
        with penstock.Cluster(3, store="memory") as cluster:
            cluster.create_topic("t", partitions=3, replication_factor=3)
            controller = cluster.controller_id()
            first, second = (node_id for node_id in (1, 2, 3) if node_id != controller)
            machines = Machines(cluster, tmp_path / "asked", broken=first)
            with machines:
                stopped = Cli(cluster.bootstrap_servers).try_run(
                    "cluster", "restart", "--command", machines.command, "--timeout", "1"
                )
            assert stopped.code == 1
            assert f"broker {first}: not all is well again after 1 s: broker {first} is not registered" in stopped.err
            assert stopped.err.endswith(f"--broker {first} --broker {second} --broker {controller}\n")
            assert machines.restarted == []


class Machines:
    """Restarts the brokers of a cluster when a command asks for it, as `ssh HOST systemctl restart` does on a machine.
    The broker `broken` does not come back.
    """

    def __init__(self, cluster: penstock.Cluster, asked: Path, broken: int | None = None) -> None:
        self._cluster = cluster
        self._asked = asked
        self._broken = broken
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.restarted: list[int] = []

    @property
    def command(self) -> str:
        script = f"import pathlib; pathlib.Path({str(self._asked)!r}).write_text('{{id}}\\n')"
        return f'{sys.executable} -c "{script}"'

    def _serve(self) -> None:
        while not self._is_over.wait(0.01):
            if self._asked.exists() and (text := self._asked.read_text()).endswith("\n"):
                self._asked.unlink()
                node_id = int(text)
                self._cluster.stop_broker(node_id)
                if node_id != self._broken:
                    self._cluster.start_broker(node_id)
                    self.restarted.append(node_id)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)


@pytest.mark.usefixtures("java")
def test_application_hears_of_nothing_when_a_second_command_restarts_the_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = ("--set", "offsets.topic.num.partitions=3")
    with running("--data", str(data), "--port", "0", *settings) as started:
        servers = started.wait_for(r"Brokers    (\S+)")[1]
        started.wait_for(r"(?s)Topics: 0.*")
        cli = Cli(servers)
        cli.run("topics", "create", "t", "--partitions", "6", "--replication-factor", "3")
        with Application(servers, "t") as application:
            done = cli.run("cluster", "restart", "--data", str(data), "--set", "num.partitions=7")
        check(application)
        assert done.err.count(": done\n") == 3
        assert {setting(servers, node_id, "num.partitions") for node_id in (1, 2, 3)} == {"7"}
        assert admin_of(servers).list_topics(timeout=PATIENCE_S).topics["t"].partitions.keys() == set(range(6))
        refused = cli.try_run("cluster", "restart", "--data", str(data), "--broker", "1", "--set", "num.partitions=no")
        assert (refused.code, "num.partitions" in refused.err) == (1, True)
        restart_a_broker_that_was_started_by_hand(started, cli, data)
        started.interrupt()
        assert started.wait() == 0
    assert "no cluster runs" not in done.err


def restart_a_broker_that_was_started_by_hand(started: Running, cli: Cli, data: Path) -> None:
    """After `kill -9` of a broker and the command that `cluster start` advises, `cluster restart` refused."""
    pid = started.wait_for(r"(?s).* 3  127\.0\.0\.1:\d+ +(\d+)  running")[1]
    os.kill(int(pid), signal.SIGKILL)
    advised = started.wait_for(r"To bring it back: penstock (.*)\n")[1].split()
    with subprocess.Popen([sys.executable, "-m", "penstock", *advised], stderr=subprocess.DEVNULL) as by_hand:
        try:
            cli.run("cluster", "restart", "--wait", "3")
            again = cli.run("cluster", "restart", "--data", str(data), "--broker", "3")
            assert "Broker 3: done" in again.err
            assert by_hand.wait(PATIENCE_S) == 0
        finally:
            by_hand.kill()
    started.wait_for(rf" 3  127\.0\.0\.1:\d+ +(?!{pid} )\d+  running")


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("java")
def test_application_hears_of_nothing_when_the_cluster_is_restarted_again_and_again() -> None:
    """The application has new clients every ten times, so that memory does not grow with what it has read."""
    with penstock.Cluster(3, config={"offsets.topic.num.partitions": 3}) as cluster:
        for number in range(10):
            cluster.create_topic(f"t{number}", partitions=6, replication_factor=3)
            with Application(cluster.bootstrap_servers, f"t{number}") as application:
                for _ in range(10):
                    cluster.restart()
            check(application)
