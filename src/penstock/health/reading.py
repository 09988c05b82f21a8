"""Asks the brokers of a cluster how it is, with requests that Apache Kafka serves as well.

Rules:
- Nothing waits longer than the answer's timeout: a broker that is paused, or whose machine is gone, costs one of them,
  and all brokers are asked at once. What could not be read is told with its reason, and the rest is shown.
- One broker, the first that answers, tells of partitions, and who the controller is. The controller tells of moves: a
  broker that holds the office no more does not answer that by itself. Each broker tells of its own directories,
  features and log ends. Minimum in-sync replicas are asked for where they matter, and log ends of replicas that lag.
- Log ends come by ListOffsets as the "debugging" replica -2, which any replica answers with the end of its log.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from penstock.client.addresses import Address
from penstock.client.move_requests import Moving, Partition, read_moves
from penstock.client.versioned import UnservedApiError, VersionedClient
from penstock.health.observed import NOBODY, BrokerSeen, DirectorySeen, FeatureSeen, Observed, PartitionSeen, ReplicaKey
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

Value = TypeVar("Value")
Response = TypeVar("Response", bound=Message)

# A broker waits up to 2 s for signs of life of a suspect before it answers Metadata.
ANSWER_TIMEOUT_S = 5.0
# Brokers asked at once. Each costs a thread for as long as it is silent.
_AT_ONCE = 64
# Partitions whose replicas are asked how far they are: enough for a screen, and one request of 50 KB.
_LAGS_ASKED = 1_000
# Topics in one question for settings.
_CONFIGS_AT_ONCE = 1_000

_TOPIC_RESOURCE = 2
_MIN_IN_SYNC = "min.insync.replicas"
_DEBUGGING_REPLICA = -2
_LATEST = -1

Connect = Callable[[Address, float], VersionedClient]
Position = tuple[int, int]  # the epoch of a log's last record, and where the log ends


class Answer(NamedTuple):
    """What one broker told of itself."""

    broker: BrokerSeen
    results: Sequence[DescribeLogDirsResult] = ()


class ClusterReader:
    """`connect(address, timeout_s)` opens a broker. Raises OSError where no broker answers at all."""

    def __init__(self, servers: Sequence[Address], connect: Connect, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._given = tuple(servers)
        self._servers = list(servers)
        self._connect = connect
        self._timeout_s = timeout_s

    def read(self, *, with_all_minimums: bool = False) -> Observed:
        """`with_all_minimums` asks for the minimum in-sync replicas of every topic, not of lagging ones alone."""
        at_s = time.monotonic()
        client, metadata = self._ask_any()
        with client:
            unread: list[str] = []
            moves, controller_silence = self._ask_named_controller(metadata)
            partitions = tuple(_partitions(metadata, moves))
            lagging = [each for each in partitions if each.lagging]
            topics = {each.topic for each in (partitions if with_all_minimums else lagging)}
            minimums = self._try(
                unread, "min.insync.replicas", lambda: read_minimums(client, sorted(topics), self._timeout_s)
            )
        # The servers that the caller named may be away at the next look.
        self._servers = list(dict.fromkeys((*self._given, *((each.host, each.port) for each in metadata.brokers))))
        answers = self._ask_brokers(metadata.brokers)
        brokers = {answer.broker.node_id: answer.broker for answer in answers}
        sizes, future_sizes = _sizes(answers, {(each.topic, each.partition) for each in partitions if each.is_moving})
        ends = self.read_log_ends(
            {broker.node_id: (broker.host, broker.port) for broker in brokers.values() if not broker.silence},
            [(each.topic, each.partition, each.replicas) for each in lagging[:_LAGS_ASKED]],
        )
        return Observed(
            at_s,
            metadata.cluster_id or "",
            metadata.controller_id if metadata.controller_id in brokers else None,
            brokers,
            partitions,
            len(metadata.topics),
            minimums or {},
            {key: end for key, (_, end) in ends.items()},
            sizes,
            future_sizes,
            tuple(unread),
            controller_silence,
        )

    def read_log_ends(
        self, brokers: Mapping[int, Address], partitions: Iterable[tuple[str, int, tuple[int, ...]]]
    ) -> dict[ReplicaKey, Position]:
        """Of each replica on one of the brokers: (the epoch of its last record, its log's end). Replicas whose broker
        does not answer, or does not have them, are left out.
        """
        wanted: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic, partition, replicas in partitions:
            for node_id in replicas:
                if node_id in brokers:
                    wanted[node_id][topic].append(partition)
        ends: dict[ReplicaKey, Position] = {}
        if wanted:
            asked = self._ask_all(wanted, lambda node_id: self._list_ends(brokers[node_id], wanted[node_id]))
            for node_id, told in asked:
                ends.update({ReplicaKey(topic, partition, node_id): end for topic, partition, end in told or ()})
        return ends

    @contextlib.contextmanager
    def open(self, address: Address) -> Iterator[VersionedClient]:
        with self._connect(address, self._timeout_s) as client:
            yield client

    def ask_controller(self, observed: Observed, request: Message, response: type[Response]) -> Response:
        """Raises OSError or ApiError, also where there is no controller."""
        broker = None if observed.controller_id is None else observed.brokers.get(observed.controller_id)
        if broker is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no broker is the controller")
        with self.open((broker.host, broker.port)) as client:
            return client.request(request, response, timeout_s=self._timeout_s)

    def _ask_named_controller(self, metadata: MetadataResponse) -> tuple[dict[Partition, Moving], str]:
        """The moves under way, and why the broker that is named as the controller did not tell them."""
        named = next((each for each in metadata.brokers if each.node_id == metadata.controller_id), None)
        if named is None:
            return {}, ""  # there is none, which is said elsewhere
        try:
            with self.open((named.host, named.port)) as client:
                return _list_moves(client, self._timeout_s), ""
        except ApiError as error:
            is_answer = error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # it did, but not to us
            return {}, "" if is_answer else str(error)
        except OSError as error:
            return {}, error.strerror or str(error)

    def _ask_any(self) -> tuple[VersionedClient, MetadataResponse]:
        failures = []
        for host, port in self._servers:
            try:
                return self._ask_metadata((host, port))
            except (OSError, ApiError) as error:
                failures.append(f"{host}:{port} ({getattr(error, 'strerror', None) or error})")
        raise ConnectionError(f"no broker answers at {', '.join(failures)}")

    def _ask_metadata(self, address: Address) -> tuple[VersionedClient, MetadataResponse]:
        client = self._connect(address, self._timeout_s)
        try:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            return client, client.request(request, MetadataResponse, timeout_s=self._timeout_s)
        except BaseException:
            client.close()
            raise

    def _try(self, unread: list[str], what: str, ask: Callable[[], Value]) -> Value | None:
        try:
            return ask()
        except (ApiError, OSError) as error:
            unread.append(f"{what}: {error}")
            return None

    def _ask_brokers(self, brokers: Sequence[MetadataResponseBroker]) -> list[Answer]:
        registered = {broker.node_id: broker for broker in brokers}

        def ask(node_id: int) -> Answer:
            broker = registered[node_id]
            seen = BrokerSeen(node_id, broker.host, broker.port, broker.rack or None)
            try:
                with self.open((broker.host, broker.port)) as client:
                    return _ask_itself(client, seen, self._timeout_s)
            except (OSError, ApiError) as error:
                return Answer(seen._replace(silence=getattr(error, "strerror", None) or str(error)))

        return [answer for _, answer in self._ask_all(registered, ask)]

    def _ask_all(self, node_ids: Iterable[int], ask: Callable[[int], Value]) -> list[tuple[int, Value]]:
        chosen = sorted(node_ids)
        if not chosen:
            return []
        with ThreadPoolExecutor(min(_AT_ONCE, len(chosen)), "penstock-health") as pool:
            answers: list[tuple[int, Future[Value]]] = [(node_id, pool.submit(ask, node_id)) for node_id in chosen]
            return [(node_id, answer.result()) for node_id, answer in answers]

    def _list_ends(
        self, address: Address, partitions: Mapping[str, Sequence[int]]
    ) -> list[tuple[str, int, Position]] | None:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=each, timestamp=_LATEST) for each in indexes],
            )
            for topic, indexes in partitions.items()
        ]
        request = ListOffsetsRequest(replica_id=_DEBUGGING_REPLICA, topics=topics)
        try:
            with self.open(address) as client:
                answer = client.request(request, ListOffsetsResponse, timeout_s=self._timeout_s)
        except (OSError, ApiError):
            return None
        return [
            (topic.name, each.partition_index, (each.leader_epoch, each.offset))
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        ]


# ---------------------------------------------------------------------------------------- one question each


def read_minimums(client: VersionedClient, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
    minimums: dict[str, int] = {}
    for start in range(0, len(topics), _CONFIGS_AT_ONCE):
        resources = [
            DescribeConfigsResource(
                resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_MIN_IN_SYNC]
            )
            for topic in topics[start : start + _CONFIGS_AT_ONCE]
        ]
        request = DescribeConfigsRequest(resources=resources)
        for result in client.request(request, DescribeConfigsResponse, timeout_s=timeout_s).results:
            values = [config.value for config in result.configs if config.name == _MIN_IN_SYNC]
            if result.error_code == ErrorCode.NONE and values and values[0] is not None:
                minimums[result.resource_name] = int(values[0])
    return minimums


def _list_moves(client: VersionedClient, timeout_s: float) -> dict[Partition, Moving]:
    """Of the controller. A broker that is none looks for one as long as the request says, and then tells that there is
    none: so half of the time is for that. Raises ApiError and OSError.
    """
    request = ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 500), topics=None)
    try:
        answer = client.request(request, ListPartitionReassignmentsResponse, timeout_s=timeout_s)
    except UnservedApiError:  # Kafka before 2.4 moves by ZooKeeper, and nobody can see it from here
        return {}
    return read_moves(answer)


def _partitions(metadata: MetadataResponse, moves: Mapping[Partition, Moving]) -> Iterator[PartitionSeen]:
    nothing = Moving((), (), ())
    for topic in sorted(metadata.topics, key=lambda topic: topic.name or ""):
        name = topic.name or ""
        for each in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            _, adding, removing = moves.get((name, each.partition_index), nothing)
            yield PartitionSeen(
                name,
                each.partition_index,
                each.leader_id if each.leader_id >= 0 else NOBODY,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                adding,
                removing,
            )


def _ask_itself(client: VersionedClient, seen: BrokerSeen, timeout_s: float) -> Answer:
    """Directories and features. A broker that does not let us see its directories tells the rest."""
    seen = seen._replace(features=_features(client.served), certificate_left_s=_certificate_left_s(client))
    answer = client.request(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, timeout_s=timeout_s)
    if answer.error_code != ErrorCode.NONE:
        return Answer(seen)
    stored = sum(
        each.partition_size for result in answer.results for topic in result.topics for each in topic.partitions
    )
    directories = tuple(
        DirectorySeen(
            result.log_dir,
            "" if result.error_code == ErrorCode.NONE else describe(ErrorCode(result.error_code)),
            result.total_bytes if result.total_bytes >= 0 else None,
            result.usable_bytes if result.usable_bytes >= 0 else None,
        )
        for result in answer.results
    )
    return Answer(seen._replace(directories=directories, stored_bytes=stored), answer.results)


def _certificate_left_s(client: VersionedClient) -> float | None:
    until = client.certificate_until
    return None if until is None else until.timestamp() - time.time()


def _features(served: ApiVersionsResponse) -> tuple[FeatureSeen, ...]:
    finalized = {feature.name: feature.max_version_level for feature in served.finalized_features}
    return tuple(
        FeatureSeen(each.name, each.min_version, each.max_version, finalized.get(each.name))
        for each in sorted(served.supported_features, key=lambda feature: feature.name)
    )


def _sizes(
    answers: Sequence[Answer], moving: set[tuple[str, int]]
) -> tuple[dict[ReplicaKey, int], dict[ReplicaKey, int]]:
    """Of replicas of the moving partitions, and of replicas that move between the directories of their broker."""
    present: dict[ReplicaKey, int] = {}
    future: dict[ReplicaKey, int] = {}
    for answer in answers:
        for result in answer.results:
            for topic in result.topics:
                for each in topic.partitions:
                    key = ReplicaKey(topic.name, each.partition_index, answer.broker.node_id)
                    (future if each.is_future_key else present)[key] = each.partition_size
    sizes = {key: size for key, size in present.items() if key in future or (key.topic, key.partition) in moving}
    return sizes, future
