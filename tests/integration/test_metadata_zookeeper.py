"""The metadata of several brokers, without logs, on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.cluster.decisions.decision import NewTopic, TopicSelector
from penstock.cluster.image_loader import load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.interface import Store
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.processes import ZooKeeperProcess
from penstock.testing.tcp_proxy import TcpProxy
from tests.integration.stores import Opener, zookeeper_opener
from tests.integration.zookeeper import own_settings, settings_for
from tests.unit.cluster.brokers import emptied
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, choices, config
from tests.unit.cluster.test_large_nodes import ACL_NODE, TOPIC, create_acls
from tests.waiting import eventually, until


async def joined(opener: Opener, node_id: int) -> tuple[Store, Metadata]:
    store = await opener()
    metadata = await Metadata.load(store, config(node_id=str(node_id)), choices=choices(node_id))
    await metadata.join(ENDPOINTS, FixedClock(), takeover_s=10)
    return store, metadata


async def agreed(*brokers: Metadata) -> None:
    await until(lambda: all(each.image == brokers[0].image for each in brokers))


def test_brokers_follow_large_changes_and_another_takes_over_when_the_controller_goes(
    zookeeper: ZooKeeperProcess,
) -> None:
    opener = zookeeper_opener(own_settings(zookeeper, session_timeout_ms=10_000))

    async def main() -> None:
        (first_store, first), (second_store, second), (third_store, third) = [
            await joined(opener, node_id) for node_id in (1, 2, 3)
        ]
        assert [each.is_controller for each in (first, second, third)] == [True, False, False]
        (result,) = await first.create_topics([NewTopic("large", 10_000, 3)])
        assert result.code is ErrorCode.NONE
        await agreed(first, second, third)
        await first.close()
        await first_store.close()
        await until(lambda: second.is_controller or third.is_controller)
        await until(lambda: 1 not in second.image.brokers and 1 not in third.image.brokers)
        await agreed(second, third)
        assert all(1 not in state.isr for state in second.image.topics["large"].partitions)
        assert await load_image(second_store) == third.image
        leader = second if second.is_controller else third
        await leader.delete_topics([TopicSelector("large")])
        await agreed(second, third)
        await emptied(second_store, "/brokers/topics")
        for store, metadata in ((second_store, second), (third_store, third)):
            await metadata.close()
            await store.close()

    asyncio.run(main())


def test_changes_go_on_when_nodes_and_decisions_are_larger_than_a_transaction(zookeeper: ZooKeeperProcess) -> None:
    """20,000 ACLs of one topic, which no node can hold, and 14,000 partitions that a broker leaves."""
    opener = zookeeper_opener(own_settings(zookeeper, session_timeout_ms=10_000))

    async def main() -> None:
        (first_store, first), (second_store, second) = [await joined(opener, node_id) for node_id in (1, 2)]
        for count in (10_000, 20_000):
            codes = {result.code for result in await create_acls(first, 10_000, first=count - 10_000)}
            assert (codes, len(first.image.security.acls[TOPIC])) == ({ErrorCode.NONE}, count)
        for name in ("a", "b"):
            (result,) = await first.create_topics([NewTopic(name, 7_000, 2)])
            assert result.code is ErrorCode.NONE
        await agreed(first, second)
        before = first.image.number
        await second.close()
        await second_store.close()
        await until(lambda: 2 not in first.image.brokers)
        assert first.image.number == before + 2, "two steps"
        assert all(state.isr == (1,) for topic in first.image.topics.values() for state in topic.partitions)
        assert await load_image(first_store) == first.image
        await first.close()
        await first_store.close()

    asyncio.run(main())


def test_brokers_agree_and_tools_see_the_truth_when_kafkas_old_tools_have_written_nodes(
    zookeeper: ZooKeeperProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """As with --zookeeper: a topic, rights, and other settings of a topic that is ours."""
    opener = zookeeper_opener(own_settings(zookeeper))

    async def main() -> None:
        first_store, first = await joined(opener, 1)
        await first.create_topics([NewTopic("ours", 2, 1)])
        await create_acls(first, 2)
        before = first.image
        await until_read(first_store, ACL_NODE, lambda data: data.count(b"User:") == 2)
        rights, settings = [await first_store.read(path) for path in (ACL_NODE, "/config/topics/ours")]
        assert rights is not None
        assert settings is not None
        kafkas = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
        await first_store.create("/brokers/topics/foreign", kafkas)
        await first_store.create("/kafka-acl/Topic/foreign", rights.data)
        await first_store.compare_and_set(ACL_NODE, rights.data.replace(b"User:", b"User:bob"), None)
        await first_store.compare_and_set("/config/topics/ours", b'{"version":1,"config":{"retention.ms":"1"}}', None)
        await first_store.compare_and_set("/brokers/topics/ours", b'{"vers', None)
        second_store, second = await joined(opener, 2)
        await agreed(first, second)
        assert second.image.topics.keys() == {"ours"}
        assert (second.image.topics, second.image.security) == (first.image.topics, before.security)
        await first.close()
        await first_store.close()
        await until(lambda: second.is_controller)
        await until_read(second_store, ACL_NODE, lambda data: data == rights.data)
        await until_read(second_store, "/config/topics/ours", lambda data: data == settings.data)
        await until_read(second_store, "/brokers/topics/ours", lambda data: b"topic_id" in data)
        await until(lambda: told in caplog.text)
        await second.close()
        await second_store.close()

    told = "/brokers/topics/foreign. Nothing counts that is written past the brokers. Use kafka-topics"
    asyncio.run(main())


async def until_read(store: Store, path: str, is_wanted: Callable[[bytes], bool]) -> None:
    async def is_there() -> bool:
        node = await store.read(path)
        return node is not None and is_wanted(node.data)

    await eventually(is_there)


def test_broker_starts_even_so_when_the_connection_breaks_while_it_loads_the_metadata(
    zookeeper: ZooKeeperProcess,
) -> None:
    settings = own_settings(zookeeper)

    async def main() -> None:
        async with TcpProxy(zookeeper.port) as proxy:
            store = await zookeeper_opener(settings_for(f"127.0.0.1:{proxy.port}{settings.connect.root}"))()
            proxy.hold_answers()
            loading = asyncio.ensure_future(Metadata.load(store, config(), choices=choices()))
            await asyncio.sleep(0.1)  # what is asked by now is never answered
            proxy.reset()
            proxy.heal()
            metadata = await loading
            await metadata.join(ENDPOINTS, FixedClock(), takeover_s=10)
            assert metadata.is_controller
            await metadata.close()
            await store.close()

    asyncio.run(main())


def test_controller_goes_on_or_another_takes_over_when_its_connection_is_cut_again_and_again(
    zookeeper: ZooKeeperProcess,
) -> None:
    settings = own_settings(zookeeper)

    async def main() -> None:
        async with TcpProxy(int(zookeeper.connect.partition("/")[0].rpartition(":")[2])) as proxy:
            flaky = settings_for(f"127.0.0.1:{proxy.port}{settings.connect.root}")
            first_store, first = await joined(zookeeper_opener(flaky), 1)
            second_store, second = await joined(zookeeper_opener(settings), 2)
            created: set[str] = set()
            for number in range(30):
                controller = first if first.is_controller else second
                try:
                    if number % 5 == 0:
                        proxy.reset()
                    (result,) = await controller.create_topics([NewTopic(f"t{number}", 2, 1)])
                except ApiError:
                    await asyncio.sleep(0.1)
                    continue
                assert result.code is ErrorCode.NONE
                created.add(f"t{number}")
            await until(lambda: first.image == second.image and first.image.brokers.keys() == {1, 2})
            assert created
            assert created <= first.image.topics.keys()
            assert await load_image(second_store) == first.image
            for store, metadata in ((first_store, first), (second_store, second)):
                await metadata.close()
                await store.close()

    asyncio.run(main())
