"""Brokers as processes, for what only a real process shows: signals, crashes, damaged files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.processes.zookeeper_jars import ZooKeeperMissingError, find_class_path, find_java
from penstock.testing.processes import BrokerProcess, ZooKeeperProcess
from tests.integration.stores import Opener, local_opener, zookeeper_opener
from tests.integration.zookeeper import LONG_SESSION_MS, own_settings
from tests.servers import give_up_without

StartBroker = Callable[..., BrokerProcess]


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts a broker on the test's data directory; whatever still runs at the end of the test is killed."""
    with ExitStack() as stack:

        def start(data_dir: Path | None = None, **options: Any) -> BrokerProcess:
            config = {"group.initial.rebalance.delay.ms": "0", **options.pop("config", {})}
            broker = BrokerProcess(data_dir or tmp_path / "data", config=config, **options)
            stack.callback(broker.kill)
            return broker.start()

        yield start


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """One server for all tests that leave it alone."""
    try:
        server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper") / "data")
    except ZooKeeperMissingError as error:
        give_up_without(str(error), "broker")
    with server:
        yield server


@pytest.fixture(scope="session")
def java() -> None:
    """For tests that start a ZooKeeper of their own."""
    try:
        find_java()
        find_class_path()
    except ZooKeeperMissingError as error:
        give_up_without(str(error), "broker")


@pytest.fixture(params=["memory", "sqlite", "zookeeper"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "zookeeper":
        server = request.getfixturevalue("zookeeper")
        return zookeeper_opener(own_settings(server, session_timeout_ms=LONG_SESSION_MS))
    return local_opener(request.param, tmp_path)


@pytest.fixture(params=["memory", "sqlite"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return local_opener(request.param, tmp_path)
