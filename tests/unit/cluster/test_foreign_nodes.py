"""What others write into the store past the brokers: it counts for nothing, keeps nobody from starting, and is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.cluster.decisions.decision import FullChange, NewTopic
from penstock.cluster.decisions.features import FeatureUpdate
from penstock.cluster.decisions.security.acls import decide_create_acls
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.levels import FEATURE, SUPPORTED, LevelRange
from penstock.cluster.security_image import SecurityImage, client_key, ip_key, user_key
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.cluster.brokers import WITH_NODES, TestBroker, started
from tests.unit.cluster.harness import run
from tests.waiting import eventually

ALLOWED = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
LITERAL = ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
PREFIXED = ResourcePattern(ResourceType.GROUP, "g", PatternType.PREFIXED)
# Every kind of node that shows the metadata, and is compared when a controller takes office.
COMPARED = (
    "/brokers/topics/t",
    "/config/topics/t",
    "/config/brokers/<default>",
    "/config/brokers/1",
    "/config/groups/g",
    "/config/users/alice",
    "/config/users/alice/clients/app",
    "/config/clients/app",
    "/config/ips/10.0.0.1",
    "/kafka-acl/Topic/t",
    "/kafka-acl-extended/prefixed/Group/g",
    "/delegation_token/tokens/id",
    "/penstock/policies/p",
    "/feature",
)
# Those that nobody compares, and those of levels before.
OTHERS = (
    "/brokers/topics/t/partitions",
    "/brokers/topics/t/partitions/0",
    "/brokers/topics/t/partitions/0/state",
    "/penstock/brokers",
)
CONTENTS = {
    "foreign": b'{"version":1,"partitions":{"0":[9]},"config":{"x":"foreign"},"acls":[]}',
    "truncated": b'{"version":3,"topic_id":"AAAA',
    "empty": b"",
    "future": b'{"version":99,"features":{"penstock.metadata":{"max_version_level":99}},"brokers":7}',
    "no text": b"\xff\x00",
}
KAFKAS_TOPIC = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'


async def make_everything(broker: TestBroker) -> None:
    metadata = broker.metadata
    await metadata.create_topics([NewTopic("t", 2, 1, configs=(("retention.ms", "7"),))])
    await metadata.alter_configs([FullChange(4, "", (("log.retention.ms", "5"),))])
    await metadata.alter_configs([FullChange(4, "1", (("log.cleaner.threads", "2"),))])
    await metadata.alter_configs([FullChange(32, "g", (("consumer.session.timeout.ms", "50000"),))])
    settings = {"x": "1"}
    entities = {
        user_key("alice"): settings,
        client_key("app", of_user="alice"): settings,
        client_key("app"): settings,
        ip_key("10.0.0.1"): settings,
    }
    whole = SecurityImage({LITERAL: (ALLOWED,), PREFIXED: (ALLOWED,)}, entities, {"id": settings}, {"p": settings})
    await metadata.security.apply(lambda _: ((), whole))


def comparable(image: MetadataImage) -> MetadataImage:
    """Without what every start changes."""
    topics = {
        name: topic._replace(
            partitions=tuple(state._replace(leader_epoch=0, partition_epoch=0) for state in topic.partitions)
        )
        for name, topic in image.topics.items()
    }
    return replace(image, number=0, controller_id=0, controller_epoch=0, brokers={}, away={}, topics=topics)


async def shown(store: MemoryStore) -> dict[str, object]:
    nodes = await store.read_many(COMPARED)
    return {path: node and json.loads(node.data) for path, node in zip(COMPARED, nodes, strict=True)}


async def is_shown(store: MemoryStore, wanted: dict[str, object]) -> bool:
    try:
        return await shown(store) == wanted
    except ValueError:
        return False


async def with_everything(tree: MemoryTree) -> tuple[MetadataImage, dict[str, object]]:
    """A cluster that has stopped, and what tools see of it."""
    (first,) = await started(tree, 1)
    await make_everything(first)

    await eventually(lambda: all_there(first.store))
    before = await shown(first.store)
    await first.stop()
    return comparable(first.metadata.image), before


async def all_there(store: MemoryStore) -> bool:
    return None not in await store.read_many(COMPARED)


@pytest.mark.parametrize("content", CONTENTS)
def test_broker_has_what_the_controller_wrote_when_every_node_holds_something_else(
    content: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        tree = MemoryTree()
        before, nodes = await with_everything(tree)
        stranger = MemoryStore(tree)
        for path in (*COMPARED, *OTHERS):
            await stranger.compare_and_set(path, CONTENTS[content], None)
        assert comparable(await load_image(stranger)) == before
        brokers = await started(tree, 1, 2)
        assert comparable(brokers[1].metadata.image) == before
        await eventually(lambda: is_shown(stranger, nodes))
        for each in brokers:
            await each.stop()

    run(main())
    assert "changed by somebody else, and written anew: /brokers/topics/t" in caplog.text
    assert "Use kafka-topics --bootstrap-server, or penstock topics." in caplog.text
    assert caplog.text.count("/brokers/topics/t.") == 1, "told once"


@pytest.mark.parametrize("mark", [None, b"", b"x", b"999"])
def test_nodes_are_written_anew_when_somebody_has_deleted_them(mark: bytes | None) -> None:
    """Also where nobody can tell any more what was drawn."""

    async def main() -> None:
        tree = MemoryTree()
        before, nodes = await with_everything(tree)
        stranger = MemoryStore(tree)
        topic = [path for path in tree.entries if path.startswith("/brokers/topics/t/")]
        for path in sorted({*topic, *COMPARED, "/config/users/alice/clients"}, reverse=True):
            await stranger.delete(path)
        if mark is not None:
            await stranger.compare_and_set("/penstock/picture", mark, None)
        (first,) = await started(tree, 1)
        assert comparable(first.metadata.image) == before
        await eventually(lambda: is_shown(stranger, nodes))
        assert await stranger.read("/brokers/topics/t/partitions/1/state") is not None
        await first.stop()

    run(main())


def test_nodes_of_tools_are_ignored_and_the_right_command_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """As `kafka-topics`, `kafka-configs` and `kafka-acls` before 3.0 make them with --zookeeper."""

    async def main() -> None:
        tree = MemoryTree()
        before, nodes = await with_everything(tree)
        stranger = MemoryStore(tree)
        made = {
            "/brokers/topics/foreign": KAFKAS_TOPIC,
            "/config/topics/foreign": b'{"version":1,"config":{}}',
            "/config/users/bob": b'{"version":1,"config":{"producer_byte_rate":"1"}}',
            "/config/brokers/x": b'{"version":1,"config":{"x":"1"}}',
            "/config/groups/other": b'{"version":1,"config":{"x":"1"}}',
            "/kafka-acl/Topic/other": b'{"version":1,"acls":[{"principal":"User:bob","permissionType":"Allow",'
            b'"operation":"All","host":"*"}]}',
        }
        for path, data in made.items():
            await stranger.create(path, data)
        first, second = await started(tree, 1, 2)
        assert comparable(first.metadata.image) == before
        await eventually(lambda: is_shown(stranger, nodes))
        for path, data in made.items():
            node = await stranger.read(path)
            assert node is not None
            assert node.data == data, "who made it may want it still"
        # A topic of that name is made all the same, and then it is ours.
        await first.metadata.create_topics([NewTopic("foreign", 1, 1)])
        acl = Acl(ResourcePattern(ResourceType.TOPIC, "other", PatternType.LITERAL), ALLOWED)
        await first.metadata.security.apply(lambda security: decide_create_acls(security, [acl]))

        async def is_ours() -> bool:
            topic, acls = await stranger.read_many(["/brokers/topics/foreign", "/kafka-acl/Topic/other"])
            return topic is not None and b"topic_id" in topic.data and acls is not None and b"alice" in acls.data

        await eventually(is_ours)
        await second.stop()
        await first.stop()

    run(main())
    for path, command in {
        "/brokers/topics/foreign": "kafka-topics --bootstrap-server, or penstock topics",
        "/config/users/bob": "kafka-configs --bootstrap-server, or penstock users and penstock quotas",
        "/config/brokers/x": "kafka-configs --bootstrap-server, or penstock configs",
        "/kafka-acl/Topic/other": "kafka-acls --bootstrap-server, or penstock acls",
    }.items():
        (line,) = [text for text in caplog.messages if path in text and "ignored" in text]
        assert command in line


@pytest.mark.parametrize("data", [KAFKAS_TOPIC, b"", b"{", b"\xff"])
def test_topic_of_a_tool_is_ignored_when_brokers_load_from_nodes(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1, levels=WITH_NODES)
        await first.metadata.create_topics([NewTopic("t", 1, 1)])
        await first.store.create("/brokers/topics/foreign", data)
        await first.store.create("/config/brokers/x", b"{}")
        (second,) = await started(tree, 2, levels=WITH_NODES)
        assert second.metadata.image.topics.keys() == {"t"}
        # A topic of ours that is damaged is none of a tool's: to go on without it would delete its records.
        await first.store.compare_and_set("/brokers/topics/t", data, None)
        with pytest.raises(StoreError, match="/brokers/topics/t: the node cannot be understood"):
            await load_image(second.store)

    run(main())
    assert "/brokers/topics/foreign" in caplog.text
    assert "kafka-topics --bootstrap-server" in caplog.text


def test_nothing_foreign_counts_any_more_when_the_level_has_risen() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1, levels=WITH_NODES)
        await make_everything(first)
        await first.stop()
        first = await TestBroker(tree, 1, levels=SUPPORTED).start()
        assert first.metadata.image.metadata_level == WITH_NODES.highest
        await first.metadata.update_features([FeatureUpdate(FEATURE, SUPPORTED.highest)], {})
        before = first.metadata.image
        stranger = MemoryStore(tree)
        await eventually(lambda: all_there(stranger))
        for path in COMPARED:
            await stranger.compare_and_set(path, b"x", None)
        assert await load_image(stranger) == before
        await first.stop()
        with pytest.raises(StoreError, match="update this broker"):
            await TestBroker(tree, 2, levels=LevelRange(1, 2)).start()

    run(main())
