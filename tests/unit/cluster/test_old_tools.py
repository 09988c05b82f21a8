from __future__ import annotations

import logging
from functools import partial

import pytest

from penstock.cluster.decisions.decision import NewTopic, TopicSelector
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import CompareAndSet
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from tests.unit.cluster.brokers import TestBroker
from tests.unit.cluster.harness import run
from tests.waiting import until

HASTY_S = 0.05

# What each tool writes first, and the command that does it.
REQUESTS = {
    "/brokers/topics/foreign": "kafka-topics --bootstrap-server",
    "/admin/delete_topics/own": "kafka-topics --bootstrap-server",
    "/admin/reassign_partitions": "kafka-reassign-partitions --bootstrap-server",
    "/admin/preferred_replica_election": "kafka-leader-election --bootstrap-server",
    "/config/changes/config_change_0000000000": "kafka-configs --bootstrap-server",
    "/kafka-acl-changes/acl_changes_0000000000": "kafka-acls --bootstrap-server",
    "/kafka-acl-extended-changes/acl_changes_0000000000": "kafka-acls --bootstrap-server",
}


@pytest.mark.parametrize("path", REQUESTS)
def test_whoever_uses_an_old_tool_is_told_once_while_the_controller_is_in_office(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if path in record.getMessage()]

    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start(inspection_s=HASTY_S)
        stranger = MemoryStore(tree)
        await stranger.ensure_path(path)
        await until(lambda: bool(warnings()))
        (result,) = await broker.metadata.create_topics([NewTopic("own", 1, 1)])
        assert not result.code
        await stranger.ensure_path("/admin/delete_topics/second")  # seen by a later look
        await until(lambda: any("second" in record.getMessage() for record in caplog.records))
        assert len(warnings()) == 1
        assert REQUESTS[path] in warnings()[0]
        await broker.stop()

    run(main())


def test_nobody_is_told_anything_when_topics_come_and_go_through_the_brokers(caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "past the brokers" in record.getMessage()]

    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start(inspection_s=0.001)
        for number in range(20):
            await broker.metadata.create_topics([NewTopic(f"t{number}", 1, 1)])
            if number % 2:
                await broker.metadata.delete_topics([TopicSelector(f"t{number}")])
        await MemoryStore(tree).ensure_path("/admin/delete_topics/last")
        await until(lambda: bool(told()))
        await broker.stop()

    run(main())
    (only,) = told()
    assert "/admin/delete_topics/last" in only


@pytest.mark.parametrize("path", ["/config/users/foreign", "/admin/delete_topics/foreign"])
def test_node_that_stays_is_told_once_when_a_broker_takes_office_again(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def told(of: str) -> int:
        return sum(of in record.getMessage() for record in caplog.records)

    def is_told(of: str) -> bool:
        return told(of) == 1

    async def main() -> None:
        tree = MemoryTree()
        stranger = MemoryStore(tree)
        await stranger.ensure_path(path)
        await stranger.compare_and_set(path, b"{}x", None)
        broker = await TestBroker(tree, 1).start()
        await until(lambda: told(path) == 1)
        for number in range(2):
            later = path.replace("foreign", f"later{number}")  # the look that finds it finds the other one, too
            await stranger.ensure_path(later)
            await stranger.compare_and_set(later, b"{}x", None)
            await stranger.delete("/controller")
            await until(partial(is_told, later))
        assert told(path) == 1
        await stranger.compare_and_set(path, b"{}y", None)
        await stranger.delete("/controller")
        if path.startswith("/config"):
            await until(lambda: told(path) == 2)
        await broker.stop()

    run(main())


def test_stranger_among_the_brokers_is_told_once_and_in_words(caplog: pytest.LogCaptureFixture) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "/brokers/ids/78" in record.getMessage()]

    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        stranger = MemoryStore(tree)
        await stranger.create("/brokers/ids/78", b"junk", ephemeral=True)
        await until(lambda: bool(warnings()))
        newcomer = await TestBroker(tree, 2).start()  # its coming is counted after another look at all of them
        assert len(warnings()) == 1
        assert "Error(" not in warnings()[0]
        await newcomer.stop()
        await broker.stop()

    run(main())


def test_follower_says_in_a_sentence_what_it_cannot_follow(caplog: pytest.LogCaptureFixture) -> None:
    def complaints() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "cannot be followed" in record.getMessage()]

    async def main() -> None:
        tree = MemoryTree()
        await TestBroker(tree, 1).start()
        follower = await TestBroker(tree, 2).start()
        await MemoryStore(tree).transaction([CompareAndSet(znodes.LOG, b"junk")])
        await until(lambda: bool(complaints()))
        await follower.stop()

    run(main())
    assert all(record.exc_info is None for record in complaints())
