"""Several instances of one registry: one leads, all take writes, and whoever wrote reads what was written."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import os
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

import penstock
from penstock.client.brokers import Brokers
from penstock.client.membership import Generation, GroupProtocol, JoinedMember, Member, MemberTimes
from penstock.client.transactional_writer import TransactionalWriter
from penstock.http.service_process import ServiceError
from penstock.processes.server_process import pause_process
from penstock.registry.node.election import Assignment, Identity
from penstock.registry.node.node import RegistryNode
from penstock.testing.processes import RegistryProcess
from tests.certificates import broker_settings, new_directory
from tests.integration.registry.node.conftest import StartRegistry
from tests.integration.registry.node.rounds import REGISTRY_CONFIG, SESSION_MS, ask, schema_text

PATIENCE_S = 30.0


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def node_of(registry: penstock.Registry) -> RegistryNode:
    return registry._registry.server.node


def port_of(registry: penstock.Registry) -> int:
    return int(registry.url.rpartition(":")[2])


def register(port: int, number: int, subject: str = "") -> int:
    status, answer = ask(port, "POST", f"/subjects/{subject or f's{number}'}/versions", {"schema": schema_text(number)})
    assert status == 200, answer
    found: int = answer["id"]
    return found


def test_a_write_through_a_follower_is_forwarded_and_read_there_at_once(start_registry: StartRegistry) -> None:
    leader, follower = start_registry(), start_registry()
    assert node_of(leader).leader_writer.is_held
    assert not node_of(follower).leader_writer.is_held
    for number in range(20):
        given = register(port_of(follower), number)
        assert ask(port_of(follower), "GET", f"/schemas/ids/{given}")[1]["schema"] == schema_text(number)
        assert ask(port_of(follower), "GET", f"/subjects/s{number}/versions")[1] == [1]


def test_what_was_written_elsewhere_is_found_by_its_id_at_once(start_registry: StartRegistry) -> None:
    leader, follower = start_registry(), start_registry()
    for number in range(20):
        given = register(port_of(leader), number)
        assert ask(port_of(follower), "GET", f"/schemas/ids/{given}")[0] == 200


def test_an_instance_stops_answering_when_its_topic_was_made_anew(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    registry = start_registry()
    given = register(port_of(registry), 1)
    quick_broker.delete_topic(topic)
    quick_broker.create_topic(topic, config={"cleanup.policy": "compact"})
    wait_until(lambda: not node_of(registry).is_caught_up, "it has noticed")
    assert ask(port_of(registry), "GET", f"/schemas/ids/{given}")[0] == 503
    assert ask(port_of(registry), "GET", "/readyz")[0] == 503


def test_an_instance_tells_the_id_of_the_brokers_cluster(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    status, answer = ask(port_of(start_registry()), "GET", "/v1/metadata/id")
    clusters = answer["scope"]["clusters"]
    assert (status, clusters["schema-registry-cluster"]) == (200, f"group-of-{topic}")
    metadata = AdminClient({"bootstrap.servers": quick_broker.bootstrap_servers}).list_topics(timeout=PATIENCE_S)
    assert clusters["kafka-cluster"] == metadata.cluster_id


def test_a_join_does_not_move_the_leader(start_registry: StartRegistry) -> None:
    leader = start_registry(host__name="z.example")  # larger than any other URL
    terms = node_of(leader).leader_writer.terms
    with_others = [start_registry(host__name=name) for name in ("a.example", "b.example")]
    for each in with_others:
        assert node_of(each).leader == node_of(leader).identity
    with_others[0].stop()
    register(port_of(leader), 1)
    assert node_of(leader).leader_writer.terms == terms


def test_another_instance_leads_at_once_when_the_leader_is_stopped(start_registry: StartRegistry) -> None:
    leader, follower = start_registry(), start_registry()
    first = register(port_of(follower), 1)
    leader.stop()
    assert register(port_of(follower), 2) == first + 1


def test_another_instance_leads_soon_when_the_leader_is_stopped_and_sessions_are_long(
    start_registry: StartRegistry,
) -> None:
    times = {"session__timeout": "60000", "rebalance__timeout": "60000", "heartbeat__interval": "200"}
    config = {f"kafkagroup__{name}__ms": text for name, text in times.items()}
    leader, follower = start_registry(**config), start_registry(**config)
    leader.stop()
    register(port_of(follower), 1)  # waits for a leader for 10 s; a third of the session is 20 s


def test_a_leader_that_loses_its_place_in_the_group_joins_again_and_writes(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    registry = start_registry()
    first = register(port_of(registry), 1)
    asyncio.run(_throw_out(quick_broker.bootstrap_servers, f"group-of-{topic}"))
    wait_until(lambda: node_of(registry).leader_writer.terms == 2, "it leads again")
    assert register(port_of(registry), 2) == first + 1


def test_a_leader_that_was_fenced_by_mistake_begins_anew_and_loses_no_write(
    quick_broker: penstock.Broker, topic: str, start_registry: StartRegistry
) -> None:
    registry = start_registry()
    given = []
    for number in range(3):
        asyncio.run(_fence(quick_broker.bootstrap_servers, topic))
        given.append(register(port_of(registry), number))
    assert len(set(given)) == 3
    assert node_of(registry).leader_writer.terms == 4
    assert [ask(port_of(registry), "GET", f"/schemas/ids/{each}")[0] for each in given] == [200, 200, 200]


async def _fence(servers: str, topic: str) -> None:
    """Begins as a leader that does not know better."""
    host, _, port = servers.rpartition(":")
    async with Brokers([(host, int(port))]) as brokers:
        await TransactionalWriter(brokers, f"group-of-{topic}-leader", topic, 0).begin()


async def _throw_out(servers: str, group: str) -> None:
    """As an administrator does: all members leave, whether they know it or not."""
    from penstock.client.brokers import CoordinatorKind
    from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
    from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    host, _, port = servers.rpartition(":")
    async with Brokers([(host, int(port))]) as brokers:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        answer = await brokers.ask_coordinator(CoordinatorKind.GROUP, group, request)
        members = [MemberIdentity(member_id=each.member_id) for each in answer.groups[0].members]
        leaving = LeaveGroupRequest(group_id=group, members=members)
        await brokers.ask_coordinator(CoordinatorKind.GROUP, group, leaving)


def test_two_instances_with_one_url_are_refused_and_the_first_goes_on(start_registry: StartRegistry) -> None:
    first = start_registry(host__name="same.example")
    port = port_of(first)
    # The port differs, so the second one gets the first one's: as containers have it that share a port number.
    with pytest.raises(ServiceError, match=r"host\.name"):
        _start_with_identity(start_registry, "same.example", port)
    register(port, 1)


def _start_with_identity(start_registry: StartRegistry, host: str, port: int) -> None:
    """On the same port, by another address of the loopback."""
    start_registry(listeners=f"http://127.0.0.2:{port}", host__name=host)


def test_what_was_forwarded_once_is_not_forwarded_again(start_registry: StartRegistry) -> None:
    _, follower = start_registry(), start_registry()
    connection = http.client.HTTPConnection("127.0.0.1", port_of(follower), timeout=PATIENCE_S)
    headers = {"Content-Type": "application/json", "X-Forward": "true"}
    connection.request("POST", "/subjects/s/versions", json.dumps({"schema": '"string"'}), headers)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error_code"]) == (500, 50004)
    connection.close()


def test_reads_are_answered_and_writes_are_not_when_nobody_may_lead(start_registry: StartRegistry) -> None:
    leader = start_registry()
    follower = start_registry(leader__eligibility="false", penstock__leader__wait__ms="50")
    given = register(port_of(follower), 1)
    leader.stop()
    status, answer = ask(port_of(follower), "POST", "/subjects/t/versions", {"schema": '"int"'})
    assert (status, answer["error_code"]) in [(500, 50004), (500, 50003)]
    assert ask(port_of(follower), "GET", f"/schemas/ids/{given}")[0] == 200
    assert ask(port_of(follower), "GET", "/readyz")[0] == 200


def test_the_leader_decides_with_the_caller_s_own_credentials(start_registry: StartRegistry, tmp_path: Path) -> None:
    rights = tmp_path / "rights.json"
    allow = {"permission": "allow", "operations": ["READ", "WRITE"], "pattern": "prefixed"}
    rules = [{"principal": f"User:{name}", "subject": name, **allow} for name in ("alice", "bob")]
    rights.write_text(json.dumps({"rules": rules}))
    logins = {"authentication__method": "BASIC", "penstock__http__users": "alice:a,bob:b"}
    start_registry(**logins, penstock__rights__file=str(rights))
    follower = start_registry(**logins)  # without rules of its own: whatever it forwards, the leader judges
    assert _post_as("alice:a", port_of(follower), "alice-1") == 200
    assert _post_as("bob:b", port_of(follower), "alice-2") == 403
    assert _post_as("bob:wrong", port_of(follower), "bob-1") == 401


def _post_as(login: str, port: int, subject: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        words = base64.b64encode(login.encode()).decode()
        headers = {"Content-Type": "application/json", "Authorization": f"Basic {words}"}
        connection.request("POST", f"/subjects/{subject}/versions", json.dumps({"schema": '"string"'}), headers)
        return connection.getresponse().status


class ConfluentInstance:
    """What Confluent's instances do in the group and over HTTP, as far as ours see it: the smallest URL leads, and
    answers say nothing of a position.
    """

    def __init__(self, servers: str, group: str, identity: Identity) -> None:
        host, _, port = servers.rpartition(":")
        self._brokers = Brokers([(host, int(port))])
        self.identity = identity
        self.assignment: Assignment | None = None
        self._member = Member(
            self._brokers,
            group,
            "sr",
            lambda: [GroupProtocol("v0", identity.encode())],
            self._assign,
            self,
            MemberTimes(SESSION_MS, 3_000),
        )

    async def _assign(self, _: str, members: object) -> dict[str, bytes]:
        assert isinstance(members, list | tuple)
        known = {each.member_id: Identity.decode(each.metadata) for each in members if isinstance(each, JoinedMember)}
        chosen = min(known, key=lambda each: known[each].url)
        decided = Assignment(0, chosen, known[chosen].claiming(False)).encode()
        return dict.fromkeys(known, decided)

    async def assigned(self, generation: Generation) -> None:
        self.assignment = Assignment.decode(generation.assignment)

    async def revoked(self, generation: Generation) -> None: ...

    async def lost(self, generation: Generation) -> None: ...

    async def failed(self, error: Exception) -> None: ...

    async def run(self, over: asyncio.Event) -> None:
        self._member.start()
        await over.wait()
        await self._member.close()
        await self._brokers.close()


@pytest.fixture
def confluent_instance(quick_broker: penstock.Broker, topic: str) -> Iterator[ConfluentInstance]:
    identity = Identity("0.example", 8081)  # smaller than any other
    loop = asyncio.new_event_loop()
    over = asyncio.Event()
    made: list[ConfluentInstance] = []
    ready = threading.Event()

    async def run() -> None:
        made.append(ConfluentInstance(quick_broker.bootstrap_servers, f"group-of-{topic}", identity))
        ready.set()
        await made[0].run(over)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    ready.wait()
    wait_until(lambda: made[0].assignment is not None, "it is in the group")
    yield made[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


def test_an_instance_follows_in_a_group_that_confluent_s_instance_leads(
    confluent_instance: ConfluentInstance, start_registry: StartRegistry
) -> None:
    registry = start_registry(penstock__leader__wait__ms="50")
    assert node_of(registry).leader == confluent_instance.identity
    assert not node_of(registry).leader_writer.is_held
    status, answer = ask(port_of(registry), "POST", "/subjects/s/versions", {"schema": '"int"'})
    assert (status, answer["error_code"]) == (500, 50003)  # nobody listens at 0.example


def test_a_leader_that_was_stopped_in_a_write_writes_nothing_when_it_goes_on(
    quick_broker: penstock.Broker, topic: str, tmp_path: Path
) -> None:
    own = {"kafkastore.topic": topic, "schema.registry.group.id": f"group-of-{topic}"}
    config = {**REGISTRY_CONFIG, **own}
    with contextlib.ExitStack() as stack:
        registries = []
        for number in range(2):
            log = tmp_path / f"registry-{number}.log"
            registries.append(RegistryProcess(quick_broker.bootstrap_servers, log, config=config))
            stack.callback(registries[-1].kill)
            registries[-1].start()
        leader, other = sorted(registries, key=lambda each: not each.is_leader())
        answered: list[tuple[str, int]] = []
        writers = [
            threading.Thread(target=_register_until_refused, args=(leader.port, first, answered))
            for first in (0, 10_000, 20_000)
        ]
        for writer in writers:
            writer.start()
        wait_until(lambda: len(answered) > 10, "writes are under way")
        pause_process(leader.pid)
        try:
            wait_until(other.is_leader, "the other one leads")
            during = [(schema_text(number), register(other.port, number)) for number in range(30_000, 30_020)]
        finally:
            os.kill(leader.pid, signal.SIGCONT)
        for writer in writers:
            writer.join()
        wait_until(lambda: not leader.is_leader(), "the old leader has noticed")
        after = [(schema_text(number), register(leader.port, number)) for number in range(40_000, 40_010)]
        given = [*answered, *during, *after]
        assert len({number for _, number in given}) == len(given), "an id was given twice"
        for registry in registries:
            for schema, number in given:
                assert ask(registry.port, "GET", f"/schemas/ids/{number}")[1]["schema"] == schema


def _register_until_refused(port: int, first: int, answered: list[tuple[str, int]]) -> None:
    """Goes on after the stop, for a while: requests that were under way, and some that come later."""
    for number in range(first, first + 60):
        with contextlib.suppress(OSError, http.client.HTTPException):
            schema = schema_text(number)
            status, answer = ask(port, "POST", f"/subjects/s{number}/versions", {"schema": schema}, PATIENCE_S)
            assert status in (200, 500), answer
            if status == 200:
                answered.append((schema, answer["id"]))


def test_instances_reach_each_other_by_https(start_registry: StartRegistry, tmp_path: Path) -> None:
    directory = new_directory(tmp_path / "certificates")
    settings = {name.replace(".", "__"): text for name, text in broker_settings(directory).items()}
    own = {"listeners": "https://127.0.0.1:0", **settings}
    start_registry(**own)
    follower = start_registry(**own)
    assert not node_of(follower).leader_writer.is_held
    trust = ssl.create_default_context(cafile=str(directory.trusted))
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(follower), timeout=PATIENCE_S, context=trust)
    with contextlib.closing(connection):
        connection.request("POST", "/subjects/s/versions", json.dumps({"schema": '"string"'}))
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["id"]) == (200, 1)
