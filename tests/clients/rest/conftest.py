"""One proxy for all tests of the session, before the broker of the client tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest, running_rest


@pytest.fixture(scope="session")
def rest(broker: RunningBroker) -> Iterator[Rest]:
    with running_rest(broker.bootstrap_servers) as running:
        yield running
