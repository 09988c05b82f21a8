"""Raw requests to a broker: ours by default, any other with PENSTOCK_TEST_BOOTSTRAP=host:port.

What these tests expect is what Apache Kafka 4.3.1 answers; run them against one to check an expectation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from penstock.client.connection import BlockingConnection
from penstock.protocol.messages.metadata import MetadataRequest
from tests.clients.raw.wire import Topic, Wire, create_topic


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    servers = os.environ.get("PENSTOCK_TEST_BOOTSTRAP")
    if servers:
        return servers
    found: str = request.getfixturevalue("broker").bootstrap_servers
    return found


@pytest.fixture
def connect(bootstrap: str) -> Iterator[Callable[[], Wire]]:
    """Opens as many connections as a test wants and closes them all."""
    host, _, port = bootstrap.rpartition(":")
    with ExitStack() as stack:
        yield lambda: Wire(stack.enter_context(BlockingConnection(host, int(port), client_id="raw")))


@pytest.fixture
def wire(connect: Callable[[], Wire]) -> Wire:
    return connect()


@pytest.fixture
def topic(wire: Wire) -> Topic:
    return create_topic(wire)


@pytest.fixture
def node(wire: Wire) -> str:
    """The broker's id, as configuration resources are named."""
    return str(wire(MetadataRequest(topics=[])).brokers[0].node_id)
