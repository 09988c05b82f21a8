"""A REST proxy before the broker of the client tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import RunningBroker
from tests.clients.rest_v3.talking import V3, run_proxy


@pytest.fixture(scope="session")
def v3(broker: RunningBroker) -> Iterator[V3]:
    with run_proxy(broker.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def admin(broker: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})
