"""What the services hold when hostile clients are gone: as much after the next thousands as after the first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.testing.processes import ServerProcess, find_free_port
from tests.clients.abusing import RETURNING_ALLOCATOR, Abuse, growth_of, rest_requests, schema_requests
from tests.clients.conftest import RunningBroker

REQUESTS = 400
# Of the last of three rounds. A registry held 4 to 30 KB for each refused schema, until the collector came after
# millions of new objects.
MOST_BYTES = 2 << 20


def growths(
    service: str, requests: tuple[Abuse, ...], bootstrap_servers: str, directory: Path, count: int = REQUESTS
) -> list[int]:
    port = find_free_port()
    command = [sys.executable, "-m", "penstock.cli.main", service, "start"]
    options = ["--listen", f"127.0.0.1:{port}", "--bootstrap-server", bootstrap_servers]
    environment = {**os.environ, **RETURNING_ALLOCATOR}
    log = directory / "log"
    with ServerProcess(service, [*command, *options], port=port, log_path=log, environment=environment) as process:
        found = growth_of(process, requests, count, rounds=3)
        print(service, "grew by", [f"{each / (1 << 20):.2f} MB" for each in found])  # shown when the test fails
    assert "Traceback" not in log.read_text()
    return found


def test_registry_holds_no_more_after_each_round_when_clients_abuse_it(broker: RunningBroker, tmp_path: Path) -> None:
    assert growths("registry", schema_requests, broker.bootstrap_servers, tmp_path)[-1] < MOST_BYTES


def test_proxy_holds_no_more_after_each_round_when_clients_abuse_it(broker: RunningBroker, tmp_path: Path) -> None:
    assert growths("rest", rest_requests, broker.bootstrap_servers, tmp_path)[-1] < MOST_BYTES


@pytest.mark.soak
@pytest.mark.parametrize(("service", "requests"), [("registry", schema_requests), ("rest", rest_requests)])
def test_services_hold_no_more_after_each_round_when_ten_thousands_come(
    service: str, requests: tuple[Abuse, ...], broker: RunningBroker, tmp_path: Path
) -> None:
    assert growths(service, requests, broker.bootstrap_servers, tmp_path, 20_000)[-1] < MOST_BYTES
