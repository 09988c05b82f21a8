"""`penstock zookeeper start` as users call it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.cluster.store.interface import Node
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
from penstock.testing.processes import ServerProcess, ZooKeeperProcess, find_free_port
from tests.clients.support import eventually
from tests.integration.zookeeper import LONG_SESSION_MS, settings_for

PENSTOCK = (sys.executable, "-m", "penstock.cli.main", "zookeeper", "start")
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from penstock.cli.main import main
sys.exit(main(["zookeeper", "start", "--data", sys.argv[1]]))
"""


@pytest.fixture
def command(tmp_path: Path, zookeeper: ZooKeeperProcess) -> Iterator[ServerProcess]:
    """The command on a port and a directory of its own, not started; only where there is Java."""
    port = find_free_port()
    arguments = ("--data", str(tmp_path / "deep" / "data"), "--port", str(port))
    with ServerProcess("penstock zookeeper", [*PENSTOCK, *arguments], port=port, log_path=tmp_path / "log") as server:
        yield server


def failed(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [*PENSTOCK, *arguments], check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nodes_are_kept_and_the_exit_is_clean_when_it_is_stopped_and_started_again(
    command: ServerProcess, number: signal.Signals
) -> None:
    settings = settings_for(command.bootstrap_servers, session_timeout_ms=LONG_SESSION_MS)

    async def write() -> None:
        store = await ZooKeeperStore.open(settings)
        await store.create("/kept", b"x")
        await store.close()

    async def read() -> Node | None:
        store = await ZooKeeperStore.open(settings)
        node = await store.read("/kept")
        await store.close()
        return node

    def await_line(count: int) -> None:
        """ZooKeeper accepts connections before it serves. A client that comes in between may wait for long: ZooKeeper
        drops some of its connections of that time without closing them.
        """
        eventually(lambda: len(command.read_log().splitlines()) >= count, "the line that says that it is ready")

    await_line(1)
    asyncio.run(write())
    command.process.send_signal(number)
    assert command.process.wait() == 0
    command.start()
    await_line(2)
    assert asyncio.run(read()) == Node(b"x", 0)
    command.terminate()
    assert command.read_log().splitlines() == [f"ZooKeeper is ready at {command.bootstrap_servers}"] * 2


def test_answer_comes_at_once_when_a_server_that_starts_leaves_the_connection_open(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    """As ZooKeeper 3.9 does before it has its database. The command said that it was ready two seconds late."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ZooKeeperProcess(tmp_path / "data", port=listener.getsockname()[1])
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.ask, "srvr")
            link, _ = listener.accept()
            with link:
                link.sendall(b"This ZooKeeper instance is not currently serving requests\n")
                assert "not currently serving" in answer.result()  # empty after the time for an answer


def test_error_names_the_port_when_it_is_in_use(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    error = failed("--data", str(tmp_path / "data"), "--port", str(zookeeper.port))
    assert f"cannot listen on 127.0.0.1:{zookeeper.port}: Address already in use" in error


def test_error_says_what_to_install_when_there_is_no_java(tmp_path: Path) -> None:
    error = failed("--data", str(tmp_path / "data"), JAVA_HOME=str(tmp_path / "nowhere"))
    assert "there is no java" in error
    assert "zookeeper.connect" in error


def test_error_names_the_extra_when_there_are_no_jars(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path / "data")],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 1
    assert "pip install 'penstock[cluster]'" in done.stderr
    assert "zookeeper.connect" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--ensemble", "a:1:2,b:1"), "'b:1' is not HOST:PORT:PORT"),
        (("--ensemble", "a:1:2,b:1:2", "--id", "3"), "--id 3 is more than the 2 servers"),
        (("--set", "tickTime"), "'tickTime' is not a setting"),
    ],
)
def test_options_are_refused_when_they_do_not_parse(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in failed("--data", str(tmp_path / "data"), *arguments)
