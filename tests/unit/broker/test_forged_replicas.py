"""Clients that fetch in the name of a replica (CVE-2018-1288): they are refused, and the in-sync set stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

from penstock.broker.acl_authorizer import AclAuthorizer
from penstock.cluster.image import MetadataImage, PartitionState
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.security.acls.types import AclEntry, Operation, Permission, ResourcePattern, ResourceType
from penstock.security.audit.events import AuditEvent, AuditKind
from tests.unit.broker.in_sync_rig import ALL, LAG_MS, advance, close, driven, fetch, look
from tests.unit.broker.replication_rig import TOPIC, Node
from tests.unit.log.support import NOW, batch


class Trail:
    kinds = frozenset({AuditKind.DENIAL})
    refuses = False

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


def refuse_strangers(node: Node) -> Trail:
    """Everybody may read the topic, and nobody is a broker."""
    everybody = AclEntry("User:*", "*", Operation.READ, Permission.ALLOW)
    image = MetadataImage("cluster")
    acls = {ResourcePattern(ResourceType.TOPIC, TOPIC): (everybody,)}
    image = MetadataImage("cluster", security=image.security._replace(acls=acls))
    config = BrokerConfig.parse({"authorizer.class.name": STANDARD_AUTHORIZER})
    source, trail = SimpleNamespace(image=image, config=config), Trail()
    node.broker.authorizer = AclAuthorizer(source, config.authorization, node.clock, trail)
    return trail


async def fetch_as_of_old(leader: Node, replica_id: int, offset: int) -> int:
    """By the field that older versions have."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
    request = FetchRequest(replica_id=replica_id, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
    response = await leader.ask(request, 11)
    return int(response.responses[0].partitions[0].error_code)


def test_in_sync_set_and_high_watermark_stay_when_a_client_fetches_as_a_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, (1, 2), 1))
        leader = cluster.nodes[1]
        leader.partition().append(batch("a"), 1, NOW)
        trail = refuse_strangers(leader)
        for replica in (2, 3):  # as one that is in sync, and as one that is not
            assert await fetch(leader, replica, 1) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert await fetch_as_of_old(leader, replica, 1) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        leading = leader.partition().leading
        assert leading is not None
        assert leader.partition().log.high_watermark == 0, "nobody has said that the record is anywhere else"
        assert (leading.pending_isr, leading.maximal_isr) == (None, frozenset((1, 2)))
        assert not cluster.changes
        advance(leader, LAG_MS + 1)
        look(leader)
        assert leading.pending_isr == (1,), "forged fetches do not keep a replica in sync either"
        assert {(event.operation, event.resource) for event in trail.events} == {
            ("ClusterAction", "Cluster:kafka-cluster")
        }
        assert await fetch_as_of_old(leader, -1, 0) == ErrorCode.NONE, "a consumer is served"
        await close(cluster)

    asyncio.run(scenario())
