"""Asking a cluster where its replicas are, which of them move, and how large they are.

Over our own connection: the client library neither lists moves nor describes directories. What only the controller
answers goes to the controller; a broker of Apache Kafka in KRaft mode names any broker as such, and that one passes
the request on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, Cluster
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.plans.assignments import BrokerNode, ClusterNow, PartitionNow, ReplicaPlace
from penstock.cli.plans.progress import ReplicaFiles
from penstock.client.move_requests import Moving, read_moves
from penstock.client.retrying import Outlook, Retrying, RetryPolicy
from penstock.client.versioned import UnservedApiError
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")

# A controller that died has a successor within the session of ZooKeeper, 18 s by default.
CONTROLLER_PATIENCE_S = 30.0
# Who describes a topic wants to know it now. Moves are told by the controller, which may be away for a moment.
_LIST_PATIENCE_S = 2.0
# One broker of many that hangs must not hold up the rest; one that is merely busy answers sooner.
BROKER_PATIENCE_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0
_NOBODY = -1
_PASSING = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


def read_cluster(cluster: Cluster) -> ClusterNow:
    """Brokers, partitions and moves. The moves are asked for first: one that ends in between still counts as a move,
    and the next look finds it done. The other way round its replicas would look like those of nobody's plan."""
    moves = list_moves(cluster)
    metadata, away = _read_metadata(cluster)
    partitions = {}
    for topic in metadata.topics:
        for answer in topic.partitions:
            key = TopicPartition(topic.name or "", answer.partition_index)
            partitions[key] = _partition_now(answer, moves.get(key))
    brokers = {node.node_id: BrokerNode(node.node_id, node.host, node.port, node.rack) for node in metadata.brokers}
    controller = metadata.controller_id if metadata.controller_id in brokers else None
    return ClusterNow(controller, dict(sorted(brokers.items())), partitions, away)


def _partition_now(answer: MetadataResponsePartition, move: Moving | None) -> PartitionNow:
    leader = None if answer.leader_id == _NOBODY else answer.leader_id
    isr = tuple(answer.isr_nodes)
    if move is None:
        return PartitionNow(leader, tuple(answer.replica_nodes), isr)
    return PartitionNow(leader, move.replicas, isr, move.adding, move.removing)


def _read_metadata(cluster: Cluster) -> tuple[MetadataResponse, frozenset[int]]:
    """With the brokers that are registered and away. Apache Kafka tells of them from 4.0 on."""
    with open_broker(cluster) as broker:
        metadata = broker.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)
        try:
            asked = DescribeClusterRequest(include_fenced_brokers=True)
            described = broker.request(asked, DescribeClusterResponse)
        except UnservedApiError:
            return metadata, frozenset()
    return metadata, frozenset(each.broker_id for each in described.brokers if each.is_fenced)


def list_moves(cluster: Cluster, patience_s: float = CONTROLLER_PATIENCE_S) -> dict[TopicPartition, Moving]:
    request = ListPartitionReassignmentsRequest(timeout_ms=round(REQUEST_TIMEOUT_SECONDS * 1000), topics=None)
    response = ask_controller(cluster, request, ListPartitionReassignmentsResponse, patience_s)
    check_error(response.error_code, "the list of moves", response.error_message)
    return {TopicPartition(*where): moving for where, moving in read_moves(response).items()}


def try_list_moves(cluster: Cluster) -> dict[TopicPartition, Moving]:
    """None where we may not know, or cannot ask, as kafka-topics does it: the rest can still be told."""
    try:
        return list_moves(cluster, _LIST_PATIENCE_S)
    except CliError:
        return {}


# ---------------------------------------------------------------------------------------------------- the controller


def ask_controller(
    cluster: Cluster, request: Message, response: type[Response], patience_s: float = CONTROLLER_PATIENCE_S
) -> Response:
    """Sent again while there is no controller, or another one than a moment ago: only for what may be done twice."""

    def ask() -> Response:
        with open_broker(cluster) as broker:
            metadata = broker.request(MetadataRequest(topics=[]), MetadataResponse)
        addresses = {node.node_id: (node.host, node.port) for node in metadata.brokers}
        if metadata.controller_id not in addresses:
            raise CliError("the cluster has no controller", exit_code=ExitCode.UNREACHABLE)
        with open_broker(cluster, addresses[metadata.controller_id], BROKER_PATIENCE_S) as broker:
            answer = broker.request(request, response)
        if getattr(answer, "error_code", ErrorCode.NONE) in _PASSING:
            raise CliError(f"broker {metadata.controller_id} is not the controller", exit_code=ExitCode.UNREACHABLE)
        return answer

    cluster.check_reachable()  # a wrong address is told at once
    return ask_patiently(ask, patience_s)


def ask_patiently(ask: Callable[[], Result], patience_s: float = CONTROLLER_PATIENCE_S) -> Result:
    """The broker that is asked may be the one that somebody restarts: asks again while nobody answers."""

    def judge(error: Exception) -> Outlook:
        is_passing = isinstance(error, CliError) and error.exit_code is ExitCode.UNREACHABLE
        return Outlook.PASSING if is_passing else Outlook.FINAL

    return Retrying(RetryPolicy(patience_s, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)).run(ask, CliError, judge)


# ---------------------------------------------------------------------------------------------------- directories


def read_files(
    cluster: Cluster, brokers: Iterable[BrokerNode], keys: Iterable[TopicPartition] | None = None
) -> dict[ReplicaPlace, ReplicaFiles]:
    """Where the replicas are, of these partitions or of all. A broker that does not answer is left out."""
    topics: list[DescribableLogDirTopic] | None = None
    if keys is not None:
        by_topic: dict[str, list[int]] = {}
        for key in keys:
            by_topic.setdefault(key.topic, []).append(key.partition)
        topics = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic.items()]
    found: dict[ReplicaPlace, ReplicaFiles] = {}
    for node in brokers:
        try:
            with open_broker(cluster, (node.host, node.port), BROKER_PATIENCE_S) as broker:
                answer = broker.request(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            continue
        check_error(answer.error_code, f"broker {node.id}")
        for directory in answer.results:
            _add_files(found, node.id, directory)
    return found


def _add_files(found: dict[ReplicaPlace, ReplicaFiles], node_id: int, directory: DescribeLogDirsResult) -> None:
    for topic in directory.topics:
        for partition in topic.partitions:
            place = ReplicaPlace(TopicPartition(topic.name, partition.partition_index), node_id)
            files = found.get(place, ReplicaFiles(None, 0))
            if partition.is_future_key:
                files = files._replace(future_directory=directory.log_dir, future_size=partition.partition_size)
            else:
                files = files._replace(directory=directory.log_dir, size=partition.partition_size)
            found[place] = files


def sizes_of(files: Mapping[ReplicaPlace, ReplicaFiles]) -> dict[ReplicaPlace, int]:
    return {place: each.size for place, each in files.items()}
