"""Reading every replica of partitions, each from its own broker: the effects behind `cluster verify-replicas`.

A reader with the replica id -2 is answered by followers as well, in Apache Kafka and here, up to the high watermark
that the follower knows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from penstock.admin.queries.configs import configs_requests, read_settings_of
from penstock.admin.queries.offsets import FIRST, offsets_request, read_offsets
from penstock.admin.queries.topics import read_brokers, read_topics
from penstock.admin.state.configs import ConfigPlace
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError
from penstock.cli.plans.replica_comparison import (
    MOST_DIFFERENCES,
    Difference,
    Piece,
    UnknownFormatError,
    compare,
    split_batches,
)
from penstock.client.addresses import Address
from penstock.client.versioned_client import VersionedClient
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.messages.describe_configs import DescribeConfigsResponse
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from penstock.protocol.messages.list_offsets import ListOffsetsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_DEBUGGING_CONSUMER = -2
_PIECE_BYTES = 1024 * 1024
# A follower hears of a high watermark with its next fetch, half a second later at most.
_PATIENCE_S = 5.0
_POLL_S = 0.1


class ReplicatedPartition(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int
    leader: int
    replicas: tuple[int, ...]
    is_compacted: bool

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Verified(NamedTuple):
    """What came of one partition. `problems` are replicas that could not be compared, or not to the end."""

    partition: ReplicatedPartition
    batches: int
    differences: tuple[Difference, ...]
    problems: tuple[str, ...]


class _UnreadableError(Exception):
    """A replica does not give what it should have."""


def find_partitions(
    cluster: ClusterClient, topics: Sequence[str] | None
) -> tuple[dict[int, Address], list[ReplicatedPartition]]:
    """The brokers that are there, and the partitions of these topics, or of all."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    with open_broker(cluster) as client:
        answer = client.request(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse)
        for topic in answer.topics:
            check_error(topic.error_code, f"topic {topic.name}")
        compacted = _find_compacted(client, [topic.name or "" for topic in answer.topics])
    brokers = {broker.node_id: (broker.host, broker.port) for broker in read_brokers(answer).values()}
    found = [
        ReplicatedPartition(
            topic.name, topic.topic_id, each.partition, each.leader, each.replicas, topic.name in compacted
        )
        for topic in read_topics(answer).values()
        for each in topic.partitions
    ]
    return brokers, sorted(found)


def _find_compacted(client: VersionedClient, topics: Iterable[str]) -> frozenset[str]:
    compacted = set()
    for request in configs_requests([ConfigPlace.topic(name) for name in topics], ["cleanup.policy"]):
        for result in client.request(request, DescribeConfigsResponse).results:
            check_error(result.error_code, f"topic {result.resource_name}", result.error_message)
            if any("compact" in (setting.value or "") for setting in read_settings_of(result).values()):
                compacted.add(result.resource_name)
    return frozenset(compacted)


class ReplicaReader:
    """Keeps one connection to each broker. Use it as a context, in one thread."""

    def __init__(
        self, cluster: ClusterClient, brokers: Mapping[int, Address], clock: Callable[[], float] = time.monotonic
    ):
        self._cluster = cluster
        self._brokers = brokers
        self._clock = clock
        self._opened = contextlib.ExitStack()
        self._clients: dict[int, VersionedClient | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self._clients.clear()
        self._opened.close()

    def verify(self, partition: ReplicatedPartition) -> Verified:
        if self._client(partition.leader) is None:
            return Verified(partition, 0, (), ("it has no leader",))
        order = [partition.leader, *(node for node in partition.replicas if node != partition.leader)]
        readable = [node for node in order if self._client(node) is not None]
        problems = [f"broker {node} does not answer" for node in order if node not in readable]
        differences: list[Difference] = []
        batches = 0
        try:
            for comparison in self._compare(partition, readable):
                batches += comparison[0]
                differences += comparison[1]
                if len(differences) >= MOST_DIFFERENCES:
                    break
        except (_UnreadableError, UnknownFormatError) as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"a broker went away: {error}")
            self._close()
        return Verified(partition, batches, tuple(differences[:MOST_DIFFERENCES]), tuple(problems))

    def _compare(
        self, partition: ReplicatedPartition, nodes: Sequence[int]
    ) -> Iterator[tuple[int, tuple[Difference, ...]]]:
        """Up to where the leader's high watermark is now. What comes later is left to the next run."""
        offset = self._find_start(partition)
        target: int | None = None
        deadline = self._clock() + _PATIENCE_S
        while target is None or offset < target:
            found = dict(self._read(partition, nodes, offset))
            if any(data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE for data in found.values()):
                start = self._find_start(partition)
                if start <= offset:
                    lacking = [node for node, data in found.items() if data.error_code]
                    raise _UnreadableError(f"broker {lacking[0]} does not have offset {offset}")
                offset = start  # records were deleted meanwhile
                continue
            pieces = {node: _open(data) for node, data in found.items()}
            if target is None:
                target = pieces[nodes[0]].high_watermark
            compared = compare(pieces, offset, is_compacted=partition.is_compacted)
            yield compared.batches, compared.differences
            if compared.next_offset > offset:
                offset, deadline = compared.next_offset, self._clock() + _PATIENCE_S
            elif offset < target:
                late = [node for node, piece in pieces.items() if piece.high_watermark <= offset]
                if self._clock() > deadline:
                    raise _UnreadableError(f"broker {late[0]} has {offset} of {target} offsets")
                time.sleep(_POLL_S)

    def _find_start(self, partition: ReplicatedPartition) -> int:
        request = offsets_request({partition.topic: [partition.partition]}, FIRST, is_committed=False)
        client = self._client(partition.leader)
        assert client is not None, "the leader was asked before"
        found, failures = read_offsets(client.request(request, ListOffsetsResponse))
        if failures:
            raise _UnreadableError(f"broker {partition.leader}: {failures[0].reason}")
        return found[TopicPartition(partition.topic, partition.partition)]

    def _read(
        self, partition: ReplicatedPartition, nodes: Sequence[int], offset: int
    ) -> Iterator[tuple[int, PartitionData]]:
        """All brokers read at the same time."""
        row = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=_PIECE_BYTES)
        request = FetchRequest(
            replica_id=_DEBUGGING_CONSUMER,
            replica_state=ReplicaState(replica_id=_DEBUGGING_CONSUMER),
            max_bytes=_PIECE_BYTES,
            topics=[FetchTopic(topic=partition.topic, topic_id=partition.topic_id, partitions=[row])],
        )
        asked = []
        for node in nodes:
            client = self._client(node)
            assert client is not None, "only those that answer are asked"
            asked.append((node, client, client.send(request)))
        for node, client, number in asked:
            answer = client.receive(number, FetchResponse)
            if answer.error_code:
                raise _UnreadableError(f"broker {node}: {describe(ErrorCode(answer.error_code))}")
            (data,) = answer.responses[0].partitions
            if data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise _UnreadableError(f"broker {node}: {describe(ErrorCode(data.error_code))}")
            yield node, data

    def _client(self, node: int) -> VersionedClient | None:
        """None for a broker that is away."""
        if node not in self._clients:
            self._clients[node] = None
            address = self._brokers.get(node)
            if address is not None:
                with contextlib.suppress(CliError):
                    self._clients[node] = self._opened.enter_context(open_broker(self._cluster, address))
        return self._clients[node]


def _open(data: PartitionData) -> Piece:
    records = data.records or b""
    assert isinstance(records, bytes | bytearray | memoryview), "what was received is in memory"
    return Piece(data.high_watermark, tuple(split_batches(records)))
