"""The picture of the metadata for tools: what is drawn when the store is damaged, refuses nodes, or is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.cluster.controller.picture import Picture
from penstock.cluster.deltas.delta import difference
from penstock.cluster.deltas.encoding import encode_delta
from penstock.cluster.deltas.picture import picture_operations
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.cluster.security_image import SecurityImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Node,
    Operation,
    Result,
    StoreError,
    StoreErrorKind,
)
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.cluster.store.tree_walk import AT_ONCE
from penstock.cluster.strangers.changed_nodes import blur_changed
from penstock.cluster.strangers.reports import Told
from penstock.security.acls.types import AclEntry, PatternType, Permission, ResourcePattern, ResourceType
from penstock.security.acls.types import Operation as Right
from tests.unit.cluster.harness import run

FENCE = Check(znodes.CONTROLLER_EPOCH, 0)
EMPTY = MetadataImage("cluster")
ALLOWED = AclEntry("User:alice", "*", Right.READ, Permission.ALLOW)


def topic(name: str, partition_count: int, leader: int = 1) -> TopicImage:
    states = (PartitionState(index, (1, 2), (1, 2), leader) for index in range(partition_count))
    return TopicImage(name, name.encode().ljust(16, b"-"), tuple(states))


def rule_of(name: str) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL)


IMAGE = MetadataImage(
    "cluster",
    metadata_level=SNAPSHOT_LEVEL,
    topics={name: topic(name, 3) for name in ("a", "b")},
    security=SecurityImage({rule_of("a"): (ALLOWED,), rule_of("b"): (ALLOWED,)}),
    number=7,
)


class RefusingStore(MemoryStore):
    """Does not let anybody at some nodes, and is away for a while."""

    def __init__(self, tree: MemoryTree | None = None) -> None:
        super().__init__(tree)
        self.unwritable: tuple[str, ...] = ()
        self.unreadable: tuple[str, ...] = ()
        self.is_away_after = 1_000_000
        self.made: list[Sequence[Operation]] = []
        self.most_read = 0

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.is_away_after == len(self.made):
            raise StoreError(StoreErrorKind.UNAVAILABLE, operations[0].path)
        self._refuse([each.path for each in operations], self.unwritable)
        results = await super().transaction(operations)
        self.made.append(operations)
        return results

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        self.most_read = max(self.most_read, len(paths))
        self._refuse(paths, self.unreadable)
        return await super().read_many(paths)

    async def children(self, path: str) -> list[str]:
        self._refuse([path], self.unreadable)
        return await super().children(path)

    def _refuse(self, paths: Sequence[str], refused: tuple[str, ...]) -> None:
        for path in paths:
            if path in refused:
                raise StoreError(StoreErrorKind.UNAVAILABLE, path, f"{path} is another user's", is_refusal=True)


async def founded(tree: MemoryTree | None = None) -> RefusingStore:
    store = RefusingStore(tree)
    for path in (*znodes.PERSISTENT_PATHS, znodes.CONTROLLER_EPOCH, znodes.FEATURES, znodes.broker_config_path(None)):
        await store.ensure_path(path)
    store.made.clear()
    return store


def drawn(image: MetadataImage) -> dict[str, bytes]:
    operations = picture_operations(EMPTY, image).operations
    return {each.path: each.data for each in operations if isinstance(each, Create | CompareAndSet)}


async def shown(store: MemoryStore, image: MetadataImage = IMAGE) -> dict[str, bytes]:
    """Of the nodes that the image has."""
    reader = MemoryStore(store._tree)
    paths = list(drawn(image))
    nodes = await reader.read_many(paths)
    return {path: node.data for path, node in zip(paths, nodes, strict=True) if node is not None}


@pytest.mark.parametrize("damage", [b"", b"no delta"])
def test_everything_is_drawn_anew_when_a_delta_behind_the_mark_cannot_be_read(damage: bytes) -> None:
    async def main() -> None:
        store = await founded()
        await (await Picture.open(store, FENCE, IMAGE)).draw(IMAGE)
        changed = replace(IMAGE, topics={**IMAGE.topics, "c": topic("c", 1)}, number=8)
        await store.ensure_path(znodes.delta_path(8))
        await store.compare_and_set(znodes.delta_path(8), damage, None)
        await store.compare_and_set(znodes.topic_path("a"), b"older", None)
        await (await Picture.open(store, FENCE, changed)).draw(changed)
        assert await shown(store, changed) == drawn(changed)

    run(main())


def test_picture_opens_when_a_strangers_delta_does_not_fit_the_image() -> None:
    """It concerns partitions that the topic has not."""

    async def main() -> None:
        store = await founded()
        await (await Picture.open(store, FENCE, IMAGE)).draw(IMAGE)
        grown = replace(IMAGE, topics={**IMAGE.topics, "a": topic("a", 5, leader=2)})
        delta = difference(IMAGE, grown, "id")
        assert delta is not None
        await store.ensure_path(znodes.delta_path(8))
        await store.compare_and_set(znodes.delta_path(8), encode_delta(delta, SNAPSHOT_LEVEL), None)
        newest = replace(IMAGE, number=8)
        await (await Picture.open(store, FENCE, newest)).draw(newest)
        assert await shown(store) == drawn(IMAGE)

    run(main())


def test_nothing_is_read_when_the_mark_is_far_behind() -> None:
    async def main() -> None:
        store = await founded()
        await store.create(znodes.PICTURE, b"1")
        picture = await Picture.open(store, FENCE, replace(IMAGE, number=1_000_000))
        assert picture.drawn == EMPTY
        assert store.most_read == 1

    run(main())


@pytest.mark.parametrize("is_readable", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_node_is_left_out_with_one_warning_when_the_store_does_not_let_us_write_it(
    is_there: bool, is_readable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = await founded()
        path = "/kafka-acl/Topic/a"
        if is_there:
            await store.ensure_path(path)
        store.unwritable, store.unreadable = (path,), () if is_readable or not is_there else (path,)
        picture = await Picture.open(store, FENCE, IMAGE)
        await picture.draw(IMAGE)
        others = {each: data for each, data in drawn(IMAGE).items() if each != path}
        assert {each: data for each, data in (await shown(store)).items() if each != path} == others
        again = replace(IMAGE, security=SecurityImage({rule_of("a"): (ALLOWED, ALLOWED._replace(host="h"))}), number=8)
        await picture.draw(again)
        assert picture.drawn is again
        assert await store.read("/kafka-acl/Topic/b") is None
        assert await blur_changed(store, again, picture.left_out, Told()) is again

    run(main())
    assert caplog.text.count("the cluster goes on without: /kafka-acl/Topic/a: /kafka-acl/Topic/a is another") == 1


def test_one_warning_is_given_when_all_below_a_node_is_left_out_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = await founded()
        store.unwritable = (znodes.topic_path("a"),)
        picture = await Picture.open(store, FENCE, IMAGE)
        await picture.draw(IMAGE)
        shown_paths = set(await shown(store))
        assert {path for path in drawn(IMAGE) if path not in shown_paths} == {
            path for path in drawn(IMAGE) if f"{path}/".startswith("/brokers/topics/a/")
        }

    run(main())
    assert caplog.text.count("the cluster goes on without") == 1


def test_error_is_raised_when_the_store_does_not_let_us_check_the_fence() -> None:
    async def main() -> None:
        store = await founded()
        store.unwritable = (FENCE.path,)
        with pytest.raises(StoreError):
            await (await Picture.open(store, FENCE, IMAGE)).draw(IMAGE)

    run(main())


def test_drawing_goes_on_with_the_transaction_that_failed_when_the_store_is_back() -> None:
    async def main() -> None:
        large = replace(IMAGE, topics={"a": topic("a", 1_000)})
        store = await founded()
        picture = await Picture.open(store, FENCE, large)
        store.is_away_after = 2
        for _ in range(2):
            with pytest.raises(StoreError):
                await picture.draw(large)
        assert (len(store.made), picture.drawn) == (2, EMPTY)
        store.is_away_after = 1_000_000
        await picture.draw(large)
        assert picture.drawn is large
        assert await shown(store, large) == drawn(large)
        written = [each.path for part in store.made for each in part[1:]]
        assert len(written) == len(set(written)), "nothing is written twice"

    run(main())


def test_nodes_are_read_in_parts_when_there_are_many(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        rules = {rule_of(f"t{number}"): (ALLOWED,) for number in range(2 * AT_ONCE + 7)}
        image = replace(IMAGE, security=SecurityImage(rules))
        store = await founded()
        await (await Picture.open(store, FENCE, image)).draw(image)
        assert await blur_changed(store, image, (), Told()) is image
        await store.compare_and_set("/kafka-acl/Topic/t3", b"x", None)
        await store.delete("/kafka-acl/Topic/t1005")
        blurred = await blur_changed(store, image, (), Told())
        wrong = {resource.name for resource in rules if blurred.security.acls[resource] != (ALLOWED,)}
        assert wrong == {"t3", "t1005"}
        assert store.most_read <= AT_ONCE

    run(main())
    assert "written anew: /kafka-acl/Topic/t3, /kafka-acl/Topic/t1005." in caplog.text


@pytest.mark.parametrize("path", ["/kafka-acl/Topic", "/kafka-acl/Topic/a", "/brokers/topics", "/brokers/topics/a"])
def test_others_are_compared_when_the_store_does_not_let_us_read_a_node(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = await founded()
        await (await Picture.open(store, FENCE, IMAGE)).draw(IMAGE)
        await store.compare_and_set("/config/topics/b", b"x", None)
        store.unreadable = (path,)
        blurred = await blur_changed(store, IMAGE, (), Told())
        assert blurred.topics["b"].configs
        assert (blurred.topics["a"], blurred.security) == (IMAGE.topics["a"], IMAGE.security)

    run(main())
    assert f"does not let us read nodes of the cluster: {path}" in caplog.text


class ToldOnTheLoop(Told):
    """Has no lock: whoever is in office, and whoever takes office, look into it."""

    def __getattribute__(self, name: str) -> Any:
        assert threading.current_thread() is threading.main_thread(), f"a thread uses {name}"
        return super().__getattribute__(name)


def test_what_was_told_is_kept_on_the_loop_alone_when_nodes_are_compared_in_threads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        store = await founded()
        await (await Picture.open(store, FENCE, IMAGE)).draw(IMAGE)
        await store.ensure_path("/config/topics")
        await store.create("/config/topics/foreign", b"x")
        told = ToldOnTheLoop()
        for _ in range(2):
            assert await blur_changed(store, IMAGE, (), told) is IMAGE

    run(main())
    assert caplog.text.count("and ignored: /config/topics/foreign.") == 1
