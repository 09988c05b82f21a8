"""Asking a cluster where its replicas are, which of them move, and how large they are.

Over our own connection: the client library neither lists moves nor describes directories. What only the controller
answers goes to the controller. A broker of Apache Kafka in KRaft mode passes the request on by itself, and names any
broker as the controller, also one that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from penstock.admin.queries.moves import moves_request
from penstock.admin.queries.nodes import directories_request, read_replica_files
from penstock.admin.queries.topics import read_brokers, read_controller, read_topics
from penstock.admin.state.brokers import BrokerState, ReplicaFiles
from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, ClusterClient
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.plans.assignments import ClusterNow, ReplicaPlace
from penstock.client.connection.versions import is_kraft
from penstock.client.move_requests import Moving, Partition, read_moves
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.client.sendings import UNSURE
from penstock.client.versioned_client import UnservedApiError
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")

# A controller that died has a successor within the session of ZooKeeper, 18 s by default.
CONTROLLER_PATIENCE_S = 30.0
# Who describes a topic wants to know it now. Moves are told by the controller, which may be away for a moment.
_LIST_PATIENCE_S = 2.0
# One broker of many that hangs must not hold up the rest; one that is merely busy answers sooner.
BROKER_PATIENCE_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0


def read_cluster(cluster: ClusterClient) -> ClusterNow:
    """Brokers, partitions and moves. The moves are asked for first: one that ends in between still counts as a move,
    and the next look finds it done. The other way round its replicas would look like those of nobody's plan."""
    moves = _list_moves(cluster, CONTROLLER_PATIENCE_S)
    metadata, away = _read_metadata(cluster)
    partitions = {each.key: each for topic in read_topics(metadata, moves).values() for each in topic.partitions}
    for where, move in moves.items():
        key = TopicPartition(*where)
        if key in partitions:
            partitions[key] = partitions[key]._replace(replicas=move.replicas)
    return ClusterNow(read_controller(metadata), read_brokers(metadata), partitions, away)


def _read_metadata(cluster: ClusterClient) -> tuple[MetadataResponse, frozenset[int]]:
    """With the brokers that are registered and away. Apache Kafka tells of them from 4.0 on."""
    with open_broker(cluster) as broker:
        metadata = broker.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)
        try:
            asked = DescribeClusterRequest(include_fenced_brokers=True)
            described = broker.request(asked, DescribeClusterResponse)
        except UnservedApiError:
            return metadata, frozenset()
    return metadata, frozenset(each.broker_id for each in described.brokers if each.is_fenced)


def _list_moves(cluster: ClusterClient, patience_s: float) -> dict[Partition, Moving]:
    request = moves_request(REQUEST_TIMEOUT_SECONDS)
    response = ask_controller(cluster, request, ListPartitionReassignmentsResponse, patience_s)
    check_error(response.error_code, "the list of moves", response.error_message)
    return read_moves(response)


def try_list_moves(cluster: ClusterClient) -> dict[TopicPartition, Moving]:
    """None where we may not know, or cannot ask, as kafka-topics does it: the rest can still be told."""
    try:
        return {TopicPartition(*where): move for where, move in _list_moves(cluster, _LIST_PATIENCE_S).items()}
    except CliError:
        return {}


# ---------------------------------------------------------------------------------------------------- the controller


def ask_controller(
    cluster: ClusterClient, request: Message, response: type[Response], patience_s: float = CONTROLLER_PATIENCE_S
) -> Response:
    """Sent again while there is no controller, or another one than a moment ago: only for what may be done twice."""

    def ask() -> Response:
        with open_broker(cluster) as broker:
            if is_kraft(broker.served):
                return check(broker.request(request, response), "the cluster has no controller")
            metadata = broker.request(MetadataRequest(topics=[]), MetadataResponse)
        addresses = {node.node_id: (node.host, node.port) for node in metadata.brokers}
        if metadata.controller_id not in addresses:
            raise CliError("the cluster has no controller", exit_code=ExitCode.UNREACHABLE)
        with open_broker(cluster, addresses[metadata.controller_id], BROKER_PATIENCE_S) as broker:
            return check(broker.request(request, response), f"broker {metadata.controller_id} is not the controller")

    def check(answer: Response, refusal: str) -> Response:
        if getattr(answer, "error_code", ErrorCode.NONE) in UNSURE:  # other errors are about what was asked
            raise CliError(refusal, exit_code=ExitCode.UNREACHABLE)
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
    cluster: ClusterClient, brokers: Iterable[BrokerState], keys: Iterable[TopicPartition] | None = None
) -> dict[ReplicaPlace, ReplicaFiles]:
    """Where the replicas are, of these partitions or of all. A broker that does not answer is left out."""
    request = directories_request(keys)
    found: dict[ReplicaPlace, ReplicaFiles] = {}
    for node in brokers:
        try:
            with open_broker(cluster, (node.host, node.port), BROKER_PATIENCE_S) as broker:
                answer = broker.request(request, DescribeLogDirsResponse)
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            continue
        check_error(answer.error_code, f"broker {node.node_id}")
        for replica, each in read_replica_files(node.node_id, answer).items():
            found[ReplicaPlace(TopicPartition(replica.topic, replica.partition), replica.node_id)] = each
    return found


def sizes_of(files: Mapping[ReplicaPlace, ReplicaFiles]) -> dict[ReplicaPlace, int]:
    return {place: each.size for place, each in files.items()}


def unregister_broker(cluster: ClusterClient, now: ClusterNow, broker: int) -> None:
    """Tells a cluster that a broker is gone for good. The request may be sent twice: a broker that was registered a
    moment ago, and is not, was unregistered.
    """
    request = UnregisterBrokerRequest(broker_id=broker)
    response = ask_controller(cluster, request, UnregisterBrokerResponse)
    if response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED and broker in now.away:
        return
    check_error(response.error_code, f"broker {broker}", response.error_message or None)
