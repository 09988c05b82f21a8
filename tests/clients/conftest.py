"""One broker process for all client tests; PENSTOCK_TEST_BOOTSTRAP points them at any other Kafka broker instead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from penstock.testing.processes import BrokerProcess


class RunningBroker(NamedTuple):
    bootstrap_servers: str


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    given = os.environ.get("PENSTOCK_TEST_BOOTSTRAP")
    if given:
        yield RunningBroker(given)
        return
    config = {"group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config=config) as process:
        yield RunningBroker(process.bootstrap_servers)
