"""Who leads before the group has chosen: a broker lets the first members of a group wait for others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import penstock
from penstock.client.brokers import Brokers
from penstock.client.membership import MemberTimes
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.registry.errors import NotLeaderError
from penstock.registry.log import LogRecord
from penstock.registry.node.election import Identity
from penstock.registry.node.node import NodeError, NodeSettings, RegistryNode
from penstock.registry.node.topic import TopicSettings
from tests.integration.registry.node.rounds import BROKER_CONFIG, REGISTRY_CONFIG, ask, schema_text
from tests.integration.registry.node.test_several_instances import wait_until

PATIENCE_S = 30.0
# Twice as long as any test here has patience, and short enough that a group settles within a test.
LONG_MS, SHORT_MS = 60_000, 1_000
# Nobody dies here, so nobody has to be noticed soon: a member that a busy machine holds up must not lose its place.
SESSION_MS = 5_000


def new_broker(delay_ms: int) -> penstock.Broker:
    return penstock.Broker(config={**BROKER_CONFIG, "group.initial.rebalance.delay.ms": str(delay_ms)})


@pytest.fixture(scope="module")
def slow_broker() -> Iterator[penstock.Broker]:
    with new_broker(LONG_MS) as broker:
        yield broker


@pytest.fixture(scope="module")
def settling_broker() -> Iterator[penstock.Broker]:
    with new_broker(SHORT_MS) as broker:
        yield broker


def registry_config(topic: str) -> dict[str, str]:
    own = {"kafkastore.topic": topic, "schema.registry.group.id": f"group-of-{topic}"}
    return {**REGISTRY_CONFIG, "kafkagroup.rebalance.timeout.ms": str(LONG_MS), **own}


def port_of(registry: penstock.Registry) -> int:
    return int(registry.url.rpartition(":")[2])


def register(port: int, number: int) -> int:
    status, answer = ask(port, "POST", f"/subjects/s{number}/versions", {"schema": schema_text(number)})
    assert status == 200, answer
    found: int = answer["id"]
    return found


def register_ten(port: int, first: int) -> list[int]:
    return [register(port, number) for number in range(first, first + 10)]


def test_a_single_instance_serves_writes_long_before_its_group_has_chosen(
    slow_broker: penstock.Broker, topic: str
) -> None:
    with penstock.Registry(slow_broker, config=registry_config(topic)) as registry:
        node = registry._registry.server.node
        assert register(port_of(registry), 1) == 1
        assert (node.is_leader, node.was_assigned) == (True, False)


def test_no_id_is_given_twice_when_two_instances_start_at_the_same_moment(
    settling_broker: penstock.Broker, topic: str
) -> None:
    registries = [penstock.Registry(settling_broker, config=registry_config(topic)) for _ in range(2)]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        for registry in registries:
            stack.callback(registry.stop)
        list(threads.map(lambda registry: registry.start(), registries))
        ports = [port_of(registry) for registry in registries]
        # At once, while both may believe to lead.
        writing = [threads.submit(register_ten, *each) for each in zip(ports, (0, 1_000), strict=True)]
        given = [number for each in writing for number in each.result()]
        assert sorted(given) == list(range(1, 21))
        for port in ports:
            assert [ask(port, "GET", f"/schemas/ids/{number}")[0] for number in given] == [200] * 20
        nodes = [registry._registry.server.node for registry in registries]
        wait_until(lambda: all(node.was_assigned for node in nodes), "the group has settled")
        assert [register(port, 2_000) for port in ports] == [21, 21]
        assert sum(node.leader_writer.is_held for node in nodes) == 1


class Meeting(Brokers):
    """Nobody goes on who has seen an empty group, until as many have seen it as the barrier waits for."""

    barrier: asyncio.Barrier

    async def ask_coordinator(self, kind: Any, key: Any, message: Any, **options: Any) -> Any:
        answer = await super().ask_coordinator(kind, key, message, **options)
        if isinstance(message, DescribeGroupsRequest):
            await self.barrier.wait()
        return answer


class Instances:
    """Nodes without HTTP, whose records are counted."""

    def __init__(self, servers: str, topic: str) -> None:
        host, _, port = servers.rpartition(":")
        self._address = (host, int(port))
        self._settings = NodeSettings(
            TopicSettings(topic), f"group-of-{topic}", MemberTimes(SESSION_MS, LONG_MS), PATIENCE_S
        )
        self._stack = contextlib.AsyncExitStack()
        self.barrier = asyncio.Barrier(1)

    def start(
        self, number: int, *, is_eligible: bool = True, replay: Callable[..., None] | None = None
    ) -> RegistryNode:
        async def nothing() -> None: ...

        brokers = Meeting([self._address])
        brokers.barrier = self.barrier
        node = RegistryNode(brokers, self._settings, replay or (lambda *record: None), nothing, lambda cluster_id: None)
        self._stack.push_async_callback(brokers.close)
        self._stack.push_async_callback(node.close)
        node.start(Identity(f"{number}.example", 8081, is_eligible))
        return node

    async def close(self) -> None:
        await self._stack.aclose()


def run(broker: penstock.Broker, topic: str, scenario: Callable[[Instances], Awaitable[None]]) -> None:
    async def main() -> None:
        instances = Instances(broker.bootstrap_servers, topic)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scenario(instances)
        finally:
            await instances.close()

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  # what is awaited has no event
        await asyncio.sleep(0.005)


def record(number: int) -> LogRecord:
    # Of no kind that means anything.
    return LogRecord(b'{"keytype":"ASSOC","number":%d}' % number, b"{}")


def test_one_of_two_that_claim_to_lead_is_fenced_and_the_group_settles(
    settling_broker: penstock.Broker, topic: str
) -> None:
    async def scenario(instances: Instances) -> None:
        instances.barrier = asyncio.Barrier(2)
        nodes = [instances.start(number) for number in range(2)]
        # A machine that is busy may have settled before both took office: then the group has left one in it.
        await until(lambda: all(node.leader_writer.terms or node.was_assigned for node in nodes))
        outcomes = await asyncio.gather(
            *(node.leader_writer.write([record(1)]) for node in nodes), return_exceptions=True
        )
        assert [type(each) for each in outcomes if each is not None] in ([NotLeaderError], [NotLeaderError] * 2)
        await until(lambda: all(node.was_assigned and node.is_ready for node in nodes))
        assert [node.leader for node in nodes] == [nodes[0].identity] * 2
        await until(lambda: [node.leader_writer.is_held for node in nodes] == [True, False])
        # The one that is chosen may not know yet that it was fenced: then it begins anew.
        with contextlib.suppress(NotLeaderError):
            await nodes[0].leader_writer.write([record(2)])
        await until(lambda: nodes[0].leader_writer.is_held)
        await nodes[0].leader_writer.write([record(3)])

    run(settling_broker, topic, scenario)


def test_an_instance_that_may_not_lead_does_not_claim_to(slow_broker: penstock.Broker, topic: str) -> None:
    async def scenario(instances: Instances) -> None:
        node = instances.start(0, is_eligible=False)
        await until(lambda: node.is_caught_up)
        await until(lambda: node._has_joined)
        assert (node.leader, node.is_leader, node.is_ready, node.leader_writer.terms) == (None, False, False, 0)

    run(slow_broker, topic, scenario)


def test_an_instance_that_is_closed_while_it_takes_office_leaves_no_one_in_it(
    slow_broker: penstock.Broker, topic: str
) -> None:
    async def scenario(instances: Instances) -> None:
        node = instances.start(0)
        while not node.is_leader:  # noqa: ASYNC110  # at every turn: the office is not taken yet when this is seen
            await asyncio.sleep(0)
        assert not node.leader_writer.is_held
        await node.close()
        assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"group member", "registry reader"})
        # The next one finds an empty group and no transaction that holds it back.
        other = instances.start(1)
        await until(lambda: other.leader_writer.is_held)
        await other.leader_writer.write([record(1)])

    run(slow_broker, topic, scenario)


def test_another_instance_leads_when_the_leader_cannot_go_on(quick_broker: penstock.Broker, topic: str) -> None:
    async def scenario(instances: Instances) -> None:
        first = instances.start(0)
        await until(lambda: first.was_assigned and first.leader_writer.is_held)
        other = instances.start(1)
        await until(lambda: other.leader == first.identity)
        first.fail(NodeError("broken"))
        await until(lambda: other.leader_writer.is_held)
        assert (first.is_leader, first.leader_writer.is_held) == (False, False)
        await other.leader_writer.write([record(1)])

    run(quick_broker, topic, scenario)
