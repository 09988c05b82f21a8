"""Nodes and changes as large as they may be: what is accepted is written, and what cannot be written is refused."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.decision import NewPartitions, NewTopic
from penstock.cluster.decisions.reassignments import ReassignmentRequest
from penstock.cluster.decisions.security.acls import CreateAclResult, decide_create_acls
from penstock.cluster.loading import load, load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES, MAX_STORE_VALUE_BYTES
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.acls.index import Acl
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from tests.unit.cluster.brokers import TestBroker, agreed, started
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, choices, config, run
from tests.unit.cluster.test_metadata_log import ZOOKEEPER, CrashingStore

TOPIC = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
ACL_NODE = "/kafka-acl/Topic/orders"


async def create_acls(metadata: Metadata, count: int, name_length: int = 40) -> tuple[CreateAclResult, ...]:
    """Of one topic."""
    names = [f"User:{number:0{name_length}d}" for number in range(count)]
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
        first, second = await started(MemoryTree(), 1, 2, limit=ZOOKEEPER)
        results = await create_acls(first.metadata, 8_000)
        assert {result.code for result in results} == {ErrorCode.NONE}
        assert await size_of(first, ACL_NODE) > MAX_STORE_TRANSACTION_BYTES
        await goes_on(first, second)

    run(main())


def test_changes_go_on_when_a_topic_has_grown_to_twenty_one_thousand_partitions() -> None:
    """With small ids of brokers, and so shorter names of replicas, it takes some 34,000."""

    async def main() -> None:
        first, second = await started(MemoryTree(), 1_000_001, 1_000_002, limit=ZOOKEEPER)
        await first.metadata.create_topics([NewTopic("large", 10_000, 2)])
        for count in (20_000, 21_000):
            (result,) = await first.metadata.create_partitions([NewPartitions("large", count)])
            assert result.code is ErrorCode.NONE
        assert await size_of(first, "/brokers/topics/large") > MAX_STORE_TRANSACTION_BYTES
        await goes_on(first, second)

    run(main())


def test_changes_go_on_when_nine_thousand_partitions_move_at_once() -> None:
    async def main() -> None:
        brokers = await started(MemoryTree(), *range(1_000_001, 1_000_005), limit=ZOOKEEPER)
        first, nodes = brokers[0], tuple(broker.node_id for broker in brokers)
        assignments = tuple((index, nodes[:2]) for index in range(9_000))
        await first.metadata.create_topics([NewTopic("large", assignments=assignments)])
        moves = [ReassignmentRequest("large", index, nodes[2:]) for index in range(9_000)]
        results = await first.metadata.duties.reassign_partitions(moves)
        assert {result.code for result in results} == {ErrorCode.NONE}
        assert await size_of(first, "/brokers/topics/large") > MAX_STORE_TRANSACTION_BYTES
        await goes_on(*brokers)

    run(main())


def test_request_is_refused_with_the_size_when_a_node_would_be_too_large() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2, limit=ZOOKEEPER)
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
        metadata = await Metadata.open(blocked, config(), ENDPOINTS, FixedClock(), choices=choices())
        blocked.allowed = 1
        await create_acls(metadata, 8_000)
        assert (await load(blocked)).stored.position.is_unwritten
        await blocked.close()
        second = await TestBroker(tree, 2, ZOOKEEPER).start()
        assert len(second.metadata.image.security.acls[TOPIC]) == 8_000
        await goes_on(second)

    run(main())
