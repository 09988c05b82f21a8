"""A cluster of plain values that answers an administration's questions, and counts them. Brokers can be made silent."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

from penstock.client.addresses import Address
from penstock.client.connection.frames import ConnectionClosedError
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.protocol.messages.consumer_group_describe import DescribedGroup as NewGroup
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


class FakeWire:
    """Partition N is led by broker N modulo their number, and every replica is in sync. `groups` by id, with their
    kind. All groups are coordinated by the first broker, and have committed 5 in partition 0 of the first topic.
    """

    def __init__(
        self,
        topics: dict[str, int],
        groups: dict[str, str] | None = None,
        brokers: Sequence[int] = (1,),
        offset_fetch_version: int = 9,
    ) -> None:
        self.topics = topics
        self.kinds = groups or {}
        self.brokers = list(brokers)
        self.bootstrap: tuple[Address, ...] = (("host", 9092),)
        self.offset_fetch_version = offset_fetch_version
        self.listing_versions: dict[int, int] = {}  # of ListTransactions, by broker; the newest for the others
        self.resource_listing_version = 1
        self.lagging: set[str] = set()  # topics whose last broker is not in sync
        self.silent: set[int] = set()  # take requests, and never answer
        self.refusing: set[int] = set()  # take no connection
        self.losing = 0  # connections that are lost with their first request
        self.lost_in_sight: set[int] = set()  # fall silent while they are asked for the topics
        self.asked: Counter[str] = Counter()
        self.most_at_once = 0
        self.sizes: dict[str, list[int]] = {}  # of requests, by what was asked for
        self.ended: list[int] = []
        self._under_way = 0
        self._lost: set[int] = set()

    def silent_addresses(self) -> frozenset[Address]:
        return frozenset(("host", node_id) for node_id in self._lost)

    async def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_s: float | None = None, answer_timeout_s: float = 0.0
    ) -> MetadataResponse:
        self.asked["Metadata"] += 1
        self._lost |= self.lost_in_sight
        rows = [
            MetadataResponseTopic(
                name=name,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=self.leader_of(index),
                        replica_nodes=self.brokers,
                        isr_nodes=self.brokers[:-1] if name in self.lagging else self.brokers,
                    )
                    for index in range(count)
                ],
            )
            for name, count in self.topics.items()
            if topics is None or name in topics
        ]
        nodes = [MetadataResponseBroker(node_id=node_id, host="host", port=node_id) for node_id in self.brokers]
        return MetadataResponse(brokers=nodes, controller_id=self.brokers[0], cluster_id="fake", topics=rows)

    async def close(self) -> None:
        pass

    async def connect_node(self, node_id: int) -> FakeLink:
        if node_id in self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")
        return FakeLink(self, node_id)

    async def connect_address(self, address: Address) -> FakeLink:
        return await self.connect_node(address[1])

    def leader_of(self, index: int) -> int:
        return self.brokers[index % len(self.brokers)]

    async def answer(self, node_id: int, message: Message) -> Any:
        self.asked[type(message).__name__.removesuffix("Request")] += 1
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            if node_id in self.silent:
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(0)
            return self._answer(node_id, message)
        finally:
            self._under_way -= 1

    def _answer(self, node_id: int, message: Message) -> Message:
        match message:
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse()
            case DescribeLogDirsRequest():
                return self._directories()
            case ListOffsetsRequest():
                return self._offsets(message)
            case DescribeConfigsRequest():
                value = DescribeConfigsResourceResult(name="min.insync.replicas", value="1", config_source=99)
                return DescribeConfigsResponse(
                    results=[
                        DescribeConfigsResult(resource_type=2, resource_name=row.resource_name, configs=[value])
                        for row in message.resources
                    ]
                )
            case ListGroupsRequest():
                own = self.kinds if node_id == self.brokers[0] else {}
                return ListGroupsResponse(
                    groups=[
                        ListedGroup(group_id=each, group_type=kind, group_state="Empty", protocol_type="consumer")
                        for each, kind in own.items()
                    ]
                )
            case DescribeGroupsRequest():
                self.sizes.setdefault("described", []).append(len(message.groups))
                return DescribeGroupsResponse(
                    groups=[
                        DescribedGroup(group_id=each, group_state="Empty", protocol_type="consumer")
                        for each in message.groups
                    ]
                )
            case ConsumerGroupDescribeRequest():
                return ConsumerGroupDescribeResponse(
                    groups=[NewGroup(group_id=each, group_state="Empty") for each in message.group_ids]
                )
            case OffsetFetchRequest():
                return self._commits(next(iter(self.topics)), message)
        raise AssertionError(message)

    def _directories(self) -> DescribeLogDirsResponse:
        rows = [
            DescribeLogDirsTopic(
                name=name,
                partitions=[
                    DescribeLogDirsPartition(partition_index=index, partition_size=10) for index in range(count)
                ],
            )
            for name, count in self.topics.items()
        ]
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/data", topics=rows)])

    def _offsets(self, message: ListOffsetsRequest) -> ListOffsetsResponse:
        self.sizes.setdefault("partitions", []).append(sum(len(topic.partitions) for topic in message.topics))
        topics = []
        for topic in message.topics:
            rows = [
                ListOffsetsPartitionResponse(
                    partition_index=row.partition_index, offset=7 if row.timestamp == -1 else 0
                )
                for row in topic.partitions
            ]
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _commits(self, topic: str, message: OffsetFetchRequest) -> OffsetFetchResponse:
        if self.offset_fetch_version < 8:
            self.sizes.setdefault("commits", []).append(1)
            row = OffsetFetchResponsePartition(partition_index=0, committed_offset=5)
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=topic, partitions=[row])])
        self.sizes.setdefault("commits", []).append(len(message.groups))
        rows = [OffsetFetchResponsePartitions(partition_index=0, committed_offset=5)]
        topics = [OffsetFetchResponseTopics(name=topic, partitions=rows)]
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=each.group_id, topics=topics) for each in message.groups]
        )


class FakeLink:
    def __init__(self, wire: FakeWire, node_id: int) -> None:
        self._wire = wire
        self._node_id = node_id
        self.address: Address = ("host", node_id)
        self.served = ApiVersionsResponse()
        self.answers = 0

    @property
    def certificate_until(self) -> datetime.datetime | None:
        return None

    def version_of(self, message: Message) -> int:
        if isinstance(message, OffsetFetchRequest):
            return self._wire.offset_fetch_version
        if isinstance(message, ListTransactionsRequest):
            return self._wire.listing_versions.get(self._node_id, message.MAX_VERSION)
        if isinstance(message, ListConfigResourcesRequest):
            return self._wire.resource_listing_version
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)

    async def begin(self, message: Message) -> asyncio.Future[Any]:
        if self._wire.losing:
            self._wire.losing -= 1
            raise ConnectionClosedError("the connection was lost")
        return asyncio.ensure_future(self._wire.answer(self._node_id, message))

    def end(self, reason: str) -> None:
        self._wire.ended.append(self._node_id)
