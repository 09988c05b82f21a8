"""Registries and their broker killed with SIGKILL while clients register schemas, and what must hold afterwards.

Several clients register schemas through whichever instance chance names. Some schemas are registered by two clients, in
two subjects. After each answer the client reads the id back from the same instance. A round kills the leader, another
instance or the broker, starts it again, and goes on when all answer.

What must hold:
- an id names one schema, and a schema has one id, whoever was told so;
- what was answered is there at the end, on every instance;
- an instance that gave an id knows the id at once.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.testing.processes import BrokerProcess, RegistryProcess

# Noticed as dead within a second, so that a round takes two or three.
SESSION_MS = 1_000
BROKER_CONFIG = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
REGISTRY_CONFIG = {"kafkagroup.session.timeout.ms": str(SESSION_MS), "kafkagroup.rebalance.timeout.ms": "3000"}
_JSON = "application/vnd.schemaregistry.v1+json"
_PATIENCE_S = 60.0


class Registered(NamedTuple):
    subject: str
    schema: str
    id: int


def ask(port: int, method: str, path: str, body: object = None, timeout_s: float = 15.0) -> tuple[int, Any]:
    """Raises OSError and HTTPException of an instance that is not there, or goes away."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": _JSON})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def schema_text(number: int) -> str:
    return json.dumps({"type": "record", "name": f"R{number}", "fields": []}, separators=(",", ":"))


class Client(threading.Thread):
    def __init__(self, number: int, ports: Sequence[int], chance: random.Random) -> None:
        super().__init__(name=f"registering-{number}", daemon=True)
        self._number = number
        self._ports = ports
        self._chance = chance
        self._over = threading.Event()
        self.registered: list[Registered] = []
        self.unread: list[str] = []  # ids that the instance which gave them did not know
        self.outcomes: Counter[str] = Counter()
        self.surprise: BaseException | None = None

    def end(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        try:
            for number in range(10**9):
                if self._over.is_set():
                    return
                self._step(number)
        except BaseException as error:  # noqa: BLE001  # told by the test's own thread
            self.surprise = error

    def _step(self, number: int) -> None:
        # Every third schema is one that all clients register.
        schema = schema_text(number if number % 3 == 0 else number * 100 + self._number + 1_000_000)
        subject = f"s-{self._number}-{number}"
        port = self._chance.choice(self._ports)
        try:
            status, answer = ask(port, "POST", f"/subjects/{subject}/versions", {"schema": schema})
            self.outcomes[str(status)] += 1
            if status != 200:
                assert status >= 500, answer
                time.sleep(0.02)
                return
            self.registered.append(Registered(subject, schema, answer["id"]))
            status, answer = ask(port, "GET", f"/schemas/ids/{self.registered[-1].id}")
            if status < 500 and (status, answer.get("schema")) != (200, schema):
                self.unread.append(f"{self.registered[-1]} at {port}: {status} {answer}")
        except (OSError, http.client.HTTPException):
            self.outcomes["gone"] += 1
            time.sleep(0.02)


class Rounds:
    def __init__(self, directory: Path, instances: int, clients: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self.broker = BrokerProcess(directory / "data", config=BROKER_CONFIG)
        self.registries = [
            RegistryProcess(self.broker.bootstrap_servers, directory / f"registry-{number}.log", config=REGISTRY_CONFIG)
            for number in range(instances)
        ]
        ports = [registry.port for registry in self.registries]
        self._clients = [Client(number, ports, random.Random(seed + number)) for number in range(clients)]
        self.killed: Counter[str] = Counter()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.broker)
            for registry in self.registries:
                stack.callback(registry.kill)
                registry.spawn()
            self._wait_until_all_answer()
            yield

    def run(self, rounds: int) -> None:
        for client in self._clients:
            client.start()
        try:
            for _ in range(rounds):
                self._round()
        finally:
            for client in self._clients:
                client.end()

    def _round(self) -> None:
        time.sleep(self._chance.uniform(0, 0.3))  # the moment of the kill
        what = self._chance.choice(["leader", "leader", "instance", "broker", "both"])
        self.killed[what] += 1
        victims: list[BrokerProcess | RegistryProcess] = []
        if what in ("broker", "both"):
            victims.append(self.broker)
        if what in ("leader", "both"):
            victims += [registry for registry in self.registries if registry.is_leader()][:1]
        if what == "instance":
            victims.append(self._chance.choice(self.registries))
        for victim in victims:
            victim.kill()
        for victim in victims:
            victim.spawn()
        self._wait_until_all_answer()

    def _wait_until_all_answer(self) -> None:
        """Until a schema can be registered through each instance."""
        self.broker.wait_until_ready()
        deadline = time.monotonic() + _PATIENCE_S
        for registry in self.registries:
            registry.wait_until_ready()
            while not _takes_writes(registry.port):
                if time.monotonic() > deadline:
                    raise AssertionError(registry.describe("takes no writes"))
                time.sleep(0.02)

    def check(self) -> int:
        """How many registrations were answered. Raises AssertionError."""
        for client in self._clients:
            if client.surprise is not None:
                raise client.surprise
            assert not client.unread, client.unread[:5]
        registered = [each for client in self._clients for each in client.registered]
        by_id: dict[int, set[str]] = {}
        by_schema: dict[str, set[int]] = {}
        for each in registered:
            by_id.setdefault(each.id, set()).add(each.schema)
            by_schema.setdefault(each.schema, set()).add(each.id)
        assert not [pair for pair in by_id.items() if len(pair[1]) > 1], "an id was given twice"
        assert not [pair for pair in by_schema.items() if len(pair[1]) > 1], "a schema has two ids"
        for registry in self.registries:
            self._check_instance(registry.port, registered)
        return len(registered)

    def _check_instance(self, port: int, registered: Sequence[Registered]) -> None:
        status, all_schemas = ask(port, "GET", "/schemas?limit=1000", timeout_s=60)
        assert status == 200
        known = {(each["subject"], each["schema"]): each["id"] for each in all_schemas}
        for each in registered:
            found = known.get((each.subject, each.schema))
            if found is None:  # beyond the first page
                status, answer = ask(port, "POST", f"/subjects/{each.subject}", {"schema": each.schema})
                assert status == 200, f"{each} is lost at {port}: {answer}"
                found = answer["id"]
            assert found == each.id, f"{each} is {found} at {port}"


def _takes_writes(port: int) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return ask(port, "POST", "/subjects/probe/versions", {"schema": '"string"'})[0] == 200
    return False
