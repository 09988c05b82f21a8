"""The registry on Apache Kafka and on Penstock: started, written through both instances, killed, elected anew."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.processes import RegistryProcess, ServerProcess

PATIENCE_S = 60.0
# The least that Kafka allows by default.
SESSION_MS = "6000"

_numbers = itertools.count(1)


def ask(registry: RegistryProcess, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(registry.host, registry.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def register(registry: RegistryProcess, number: int) -> int:
    """Tries again while a leader is elected, as clients do."""
    schema = json.dumps({"type": "record", "name": f"R{number}", "fields": []})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status, answer = ask(registry, "POST", f"/subjects/s{number}/versions", {"schema": schema})
        if status == 200:
            found: int = answer["id"]
            return found
        assert status >= 500, answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


@pytest.fixture
def config() -> dict[str, str]:
    number = next(_numbers)
    return {
        "kafkastore.topic": f"_schemas_{number}",
        "schema.registry.group.id": f"registry-{number}",
        "kafkagroup.session.timeout.ms": SESSION_MS,
    }


def test_ids_go_on_and_nothing_is_lost_when_the_leader_is_killed(
    broker: ServerProcess, config: dict[str, str], tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        registries = []
        for number in range(2):
            log = tmp_path / f"registry-{number}.log"
            registries.append(RegistryProcess(broker.bootstrap_servers, log, config=config))
            stack.callback(registries[-1].kill)
            registries[-1].start()
        leader, follower = sorted(registries, key=lambda each: not each.is_leader())
        assert leader.is_leader()
        assert not follower.is_leader()
        given = [register(each, number) for number, each in enumerate([leader, follower] * 5)]
        assert given == list(range(1, 11))
        assert ask(follower, "GET", f"/schemas/ids/{given[-1]}")[0] == 200
        leader.kill()
        assert register(follower, 10) == 11
        assert follower.is_leader()
        leader.start()
        assert follower.is_leader(), "a join does not move the leader"
        assert register(leader, 11) == 12
        for each in registries:
            assert ask(each, "GET", "/subjects")[1] == sorted(f"s{number}" for number in range(12))


def test_another_start_reads_what_was_written(broker: ServerProcess, config: dict[str, str], tmp_path: Path) -> None:
    with RegistryProcess(broker.bootstrap_servers, tmp_path / "first.log", config=config) as registry:
        assert register(registry, 1) == 1
        assert ask(registry, "PUT", "/config/s1", {"compatibility": "FULL"})[0] == 200
    with RegistryProcess(broker.bootstrap_servers, tmp_path / "second.log", config=config) as registry:
        assert ask(registry, "GET", "/config/s1")[1]["compatibilityLevel"] == "FULL"
        assert register(registry, 2) == 2
