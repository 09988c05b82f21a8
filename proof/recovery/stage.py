"""The cluster that is hurt: three brokers and ZooKeeper as processes, topics whose leaders are where a case wants them.

One cluster serves many tries: the broker that was hurt comes back, all replicas are in sync again, and the preferred
leaders lead again before the next try.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self, TypeVar

from penstock.client.addresses import Address
from penstock.client.versioned_client import VersionedClient
from penstock.local_cluster.cluster import Cluster
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

Response = TypeVar("Response", bound=Message)

NODES = (1, 2, 3)
PATIENCE_S = 120.0
_NAME = "penstock-recovery"
_POLL_S = 0.05
_USE_BROKERS_DEFAULT = -1
# Leaders move when a try wants it and not between.
_SETTINGS = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}


class Stage:
    """Use it as a context."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster(len(NODES), directory, _SETTINGS)

    def __enter__(self) -> Self:
        self.cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.abandon()

    @property
    def addresses(self) -> Mapping[int, Address]:
        return {broker.node_id: (broker.host, broker.port) for broker in self.cluster.brokers}

    def create(self, topic: str, assignment: list[list[int]]) -> None:
        """The first replica of each partition leads it, unless a fault moves it."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=_USE_BROKERS_DEFAULT,
                    replication_factor=_USE_BROKERS_DEFAULT,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                        for index, replicas in enumerate(assignment)
                    ],
                )
            ],
            timeout_ms=int(PATIENCE_S * 1000),
        )
        (result,) = self._ask(self.cluster.controller_id(), request, CreateTopicsResponse).topics
        if result.error_code:
            raise ApiError(ErrorCode(result.error_code), result.error_message)
        self.settle(topic)

    def leaders(self, topic: str, node_id: int) -> dict[int, int]:
        """As the broker knows them."""
        return {partition: leader for partition, (leader, _) in self._partitions(topic, node_id).items()}

    def restore(self) -> None:
        """All brokers run, and all replicas are in sync."""
        self.cluster.restore()
        self.cluster.wait_until_in_sync(PATIENCE_S)

    def settle(self, topic: str) -> None:
        """Until all brokers know that the preferred leaders lead."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(self._is_settled(topic, node_id) for node_id in NODES):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the preferred leaders of {topic} do not lead")
            request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
            self._ask(self.cluster.controller_id(), request, ElectLeadersResponse)
            time.sleep(_POLL_S)

    def _is_settled(self, topic: str, node_id: int) -> bool:
        partitions = self._partitions(topic, node_id)
        return bool(partitions) and all(leader == preferred for leader, preferred in partitions.values())

    def _partitions(self, topic: str, node_id: int) -> dict[int, tuple[int, int]]:
        """Leader and preferred leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        answer = self._ask(node_id, request, MetadataResponse)
        return {
            each.partition_index: (each.leader_id, each.replica_nodes[0])
            for found in answer.topics
            for each in found.partitions
        }

    def _ask(self, node_id: int, request: Message, response: type[Response]) -> Response:
        with VersionedClient.open(self.addresses[node_id], client_id=_NAME, software=_NAME) as client:
            return client.request(request, response)
