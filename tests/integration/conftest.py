"""Brokers as processes, for what only a real process shows: signals, crashes, damaged files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.processes import BrokerProcess

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
