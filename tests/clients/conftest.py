"""The broker of the client tests; PENSTOCK_TEST_BOOTSTRAP points them at any other Kafka broker instead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from penstock.testing.processes import BrokerProcess
from tests.clients.sasl_broker import SaslBroker, run_sasl_broker
from tests.shared_brokers import SHARED_BROKER

# Kafka's least session timeout by default, for a broker that is not ours to configure; ours may be quicker.
DEFAULT_MIN_SESSION_TIMEOUT_MS = 6_000
QUICK_SESSION_TIMEOUT_MS = 1_000


class RunningBroker(NamedTuple):
    bootstrap_servers: str
    session_timeout_ms: int = DEFAULT_MIN_SESSION_TIMEOUT_MS


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    given = os.environ.get("PENSTOCK_TEST_BOOTSTRAP")
    if given:
        yield RunningBroker(given)
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config=SHARED_BROKER) as process:
        yield RunningBroker(process.bootstrap_servers)


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """For tests that wait until a silent member is dropped: its least session timeout is far below Kafka's default."""
    given = os.environ.get("PENSTOCK_TEST_BOOTSTRAP")
    if given:
        yield RunningBroker(given)
        return
    config = SHARED_BROKER | {
        "group.min.session.timeout.ms": str(QUICK_SESSION_TIMEOUT_MS),
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.assignment.interval.ms": "0",
    }
    with BrokerProcess(tmp_path_factory.mktemp("group-broker"), config=config) as process:
        yield RunningBroker(process.bootstrap_servers, QUICK_SESSION_TIMEOUT_MS)


@pytest.fixture(scope="session")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with run_sasl_broker(tmp_path_factory.mktemp("sasl-broker")) as running:
        yield running
