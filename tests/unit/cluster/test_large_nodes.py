"""Nodes and changes as large as they may be, where brokers load from nodes: what is accepted is written, and what
cannot be written is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.cluster.controller.registration import term_of
from penstock.cluster.controller.writer import PreparedChange, Writer
from penstock.cluster.decisions.decision import NewPartitions, NewTopic
from penstock.cluster.decisions.reassignments import ReassignmentRequest, decide_reassignments
from penstock.cluster.decisions.security.acls import CreateAclResult, decide_create_acls
from penstock.cluster.deltas.delta import difference
from penstock.cluster.deltas.encoding import encode_delta
from penstock.cluster.deltas.nodes import delta_operations
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load, load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError, TransactionLimit
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES, MAX_STORE_VALUE_BYTES
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.cluster.brokers import WITH_NODES, TestBroker, agreed, opened_with_nodes, started
from tests.unit.cluster.harness import broker, run
from tests.unit.cluster.test_metadata_log import ZOOKEEPER, CrashingStore

TOPIC = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
# So that each change has several transactions.
FEW_OPERATIONS = TransactionLimit(ZOOKEEPER.size, 200)
ACL_NODE = "/kafka-acl/Topic/orders"


async def create_acls(
    metadata: Metadata, count: int, name_length: int = 40, first: int = 0
) -> tuple[CreateAclResult, ...]:
    """Of one topic."""
    names = [f"User:{number:0{name_length}d}" for number in range(first, first + count)]
    acls = [Acl(TOPIC, AclEntry(name, "*", Operation.READ, Permission.ALLOW)) for name in names]
    return await metadata.security.apply(lambda security: decide_create_acls(security, acls))


async def size_of(broker: TestBroker, path: str) -> int:
    node = await broker.store.read(path)
    assert node is not None
    return len(node.data)


async def goes_on(*brokers: TestBroker) -> None:
    """The next change is made, and whoever loads finds what the brokers have."""
    (result,) = await brokers[0].metadata.create_topics([NewTopic("next", 1, 1)])
    assert result.code is ErrorCode.NONE
    await agreed(*brokers)
    assert not (await load(brokers[-1].store)).stored.position.is_unwritten
    assert await load_image(brokers[-1].store) == brokers[0].metadata.image


def test_changes_go_on_when_a_topic_has_eight_thousand_acls() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2, limit=ZOOKEEPER, levels=WITH_NODES)
        results = await create_acls(first.metadata, 8_000)
        assert {result.code for result in results} == {ErrorCode.NONE}
        assert await size_of(first, ACL_NODE) > MAX_STORE_TRANSACTION_BYTES
        await goes_on(first, second)

    run(main())


def test_changes_go_on_when_a_topic_has_grown_to_twenty_one_thousand_partitions() -> None:
    """With small ids of brokers, and so shorter names of replicas, it takes some 34,000."""

    async def main() -> None:
        first, second = await started(MemoryTree(), 1_000_001, 1_000_002, limit=ZOOKEEPER, levels=WITH_NODES)
        await first.metadata.create_topics([NewTopic("large", 10_000, 2)])
        for count in (20_000, 21_000):
            (result,) = await first.metadata.create_partitions([NewPartitions("large", count)])
            assert result.code is ErrorCode.NONE
        assert await size_of(first, "/brokers/topics/large") > MAX_STORE_TRANSACTION_BYTES
        await goes_on(first, second)

    run(main())


def test_changes_go_on_when_nine_thousand_partitions_move_at_once() -> None:
    async def main() -> None:
        brokers = await started(MemoryTree(), *range(1_000_001, 1_000_005), limit=ZOOKEEPER, levels=WITH_NODES)
        first, nodes = brokers[0], tuple(broker.node_id for broker in brokers)
        assignments = tuple((index, nodes[:2]) for index in range(9_000))
        await first.metadata.create_topics([NewTopic("large", assignments=assignments)])
        moves = [ReassignmentRequest("large", index, nodes[2:]) for index in range(9_000)]
        results = await first.metadata.controller_api.reassign_partitions(moves)
        assert {result.code for result in results} == {ErrorCode.NONE}
        assert await size_of(first, "/brokers/topics/large") > MAX_STORE_TRANSACTION_BYTES
        await goes_on(*brokers)

    run(main())


def test_request_is_refused_with_the_size_when_a_node_would_be_too_large() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2, limit=ZOOKEEPER, levels=WITH_NODES)
        before = first.metadata.image
        with pytest.raises(ApiError) as refused:
            await create_acls(first.metadata, 9_000, name_length=60)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert ACL_NODE in refused.value.message
        assert f"1233022 bytes, where {MAX_STORE_VALUE_BYTES} are the most" in refused.value.message
        assert first.metadata.image is before
        await goes_on(first, second)

    run(main())


def test_blocked_cluster_goes_on_when_this_version_is_started() -> None:
    """Versions before wrote the delta of a node that they could not write."""

    async def main() -> None:
        tree = MemoryTree()
        blocked = CrashingStore(tree, transaction_limit=ZOOKEEPER)
        metadata = await opened_with_nodes(blocked)
        blocked.allowed = 1
        await create_acls(metadata, 8_000)
        assert (await load(blocked)).stored.position.is_unwritten
        await blocked.close()
        second = await TestBroker(tree, 2, ZOOKEEPER, WITH_NODES).start()
        assert len(second.metadata.image.security.acls[TOPIC]) == 8_000
        await goes_on(second)

    run(main())


async def write_unchecked(store: MemoryStore, decide: Callable[[MetadataImage], MetadataImage]) -> None:
    """As versions before did: the delta alone, whatever its nodes are."""
    image, stored = await load(store)
    after = decide(image)
    writer = Writer(store, term_of(await store.read(znodes.CONTROLLER_EPOCH)).fence, stored, lambda: "id")
    delta = difference(image, after, "id")
    assert delta is not None
    after = replace(after, number=delta.number)
    await writer.write(
        PreparedChange(after, delta, encode_delta(delta, after.metadata_level), delta_operations(delta, after))
    )


@pytest.mark.parametrize("allowed", [None, *range(1, 14, 2)])
def test_moves_are_taken_back_when_the_node_of_their_topic_can_never_be_written(allowed: int | None) -> None:
    """Nobody could write it, so the cluster was blocked. A start that is cut short leaves the rest to the next one."""

    async def main() -> None:
        tree, others = MemoryTree(), tuple(range(1_000_000_001, 1_000_000_061))
        brokers = await started(tree, 1, 2, limit=FEW_OPERATIONS, levels=WITH_NODES)
        topics = [
            NewTopic("large", assignments=tuple((index, (1, 2)) for index in range(900))),
            NewTopic("other", 3, 1),
        ]
        await brokers[0].metadata.create_topics(topics)
        for each in brokers:
            await each.stop()
        moves = [ReassignmentRequest("large", index, others) for index in range(899)]
        moves += [ReassignmentRequest("large", 899, (2, 1)), ReassignmentRequest("other", 0, (1, 2))]

        def decide(image: MetadataImage) -> MetadataImage:
            registered = {node_id: broker(node_id) for node_id in (1, 2, *others)}
            decision = decide_reassignments(replace(image, brokers=registered), moves, lambda _: False)
            return image.with_topics(decision.image.topics)

        await write_unchecked(MemoryStore(tree, transaction_limit=FEW_OPERATIONS), decide)
        if allowed is not None:
            dying = CrashingStore(tree, transaction_limit=FEW_OPERATIONS)
            dying.allowed = allowed
            with pytest.raises(StoreError, match="cannot be reached"):
                await opened_with_nodes(dying)
            await dying.close()
            large = (await load_image(MemoryStore(tree))).topics["large"].partitions
            assert large[-1].replicas == (2, 1)
            assert len({(state.replicas, state.adding) for state in large[:-1]}) == 1, "all move, or none of them does"
        brokers = [await TestBroker(tree, node_id, FEW_OPERATIONS, WITH_NODES).start() for node_id in (1, 2)]
        large, other = (brokers[0].metadata.image.topics[name].partitions for name in ("large", "other"))
        assert {state.replicas for state in large[:-1]} == {(1, 2)}
        assert large[-1].replicas == (2, 1)
        assert not any(state.adding or state.removing for state in large)
        assert set(other[0].replicas) == {1, 2}, "a move that can be told of goes on"
        await goes_on(*brokers)

    run(main())
