"""Telling a cluster to move replicas, or to stop moving them, and who should lead. A refusal is an error for each
partition, and says nothing about the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.admin.queries.moves import (
    directory_moves,
    read_refused_directories,
    read_refused_moves,
    reassignments,
)
from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.partitions import ReplicaKey
from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, ClusterClient, wait
from penstock.cli.access.cluster_now import BROKER_PATIENCE_S, ask_controller
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, ExitCode, explain
from penstock.cli.plans.assignments import ReplicaPlace, Replicas
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

Failures = dict[TopicPartition, CliError]


def start_moves(cluster: ClusterClient, wanted: Mapping[TopicPartition, Replicas | None]) -> Failures:
    """None cancels the move of a partition. Asking for what is so already, or under way, changes nothing."""
    failures: Failures = {}
    for request in reassignments(wanted, round(REQUEST_TIMEOUT_SECONDS * 1000)):
        response = ask_controller(cluster, request, AlterPartitionReassignmentsResponse)
        check_error(response.error_code, "the reassignment", response.error_message)
        failures |= {key: _failure(key, error) for key, error in read_refused_moves(response).items()}
    return failures


def cancel_moves(cluster: ClusterClient, keys: Iterable[TopicPartition]) -> Failures:
    """A move that has ended meanwhile is no failure."""
    failures = start_moves(cluster, dict.fromkeys(keys))
    ended = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.name
    return {key: failure for key, failure in failures.items() if failure.name != ended}


def _failure(subject: object, error: ApiError) -> CliError:
    return CliError(f"{subject}: {error.message}", name=error.code.name)


# ---------------------------------------------------------------------------------------------------- directories


def move_directories(
    cluster: ClusterClient, brokers: Mapping[int, BrokerState], wanted: Mapping[ReplicaPlace, str]
) -> dict[ReplicaPlace, CliError]:
    """What could not be started. A broker that has no such replica yet says so, and remembers the directory.

    A broker that does not answer is a failure of its places alone, without those of earlier requests that it answered:
    somebody may be restarting it.
    """
    requests = directory_moves({ReplicaKey(*place.key, place.broker): path for place, path in wanted.items()})
    failures: dict[ReplicaPlace, CliError] = {}
    for node_id, own in requests.items():
        if node_id not in brokers:  # it may come back
            gone = ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
            failures |= {place: _failure(place, gone) for place in wanted if place.broker == node_id}
            continue
        node = brokers[node_id]
        unanswered = deque(own)
        try:
            with open_broker(cluster, (node.host, node.port), BROKER_PATIENCE_S) as broker:
                while unanswered:
                    answer = broker.request(unanswered[0], AlterReplicaLogDirsResponse)
                    del unanswered[0]
                    for replica, refused in read_refused_directories(node_id, answer).items():
                        place = ReplicaPlace(TopicPartition(replica.topic, replica.partition), node_id)
                        failures[place] = _failure(place, refused)
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            failures |= {place: error for request in unanswered for place in _places(node_id, request)}
    return failures


def _places(node_id: int, request: AlterReplicaLogDirsRequest) -> Iterator[ReplicaPlace]:
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield ReplicaPlace(TopicPartition(topic.name, index), node_id)


# ---------------------------------------------------------------------------------------------------- leaders


def elect_leaders(
    cluster: ClusterClient, keys: Iterable[TopicPartition] | None, *, unclean: bool = False
) -> dict[TopicPartition, CliError | None]:
    """The answer for each partition, None where another one leads it now. Without keys: all partitions, and only those
    are answered that need an election."""
    from confluent_kafka import ElectionType
    from confluent_kafka import TopicPartition as ClientPartition

    wanted = None if keys is None else [ClientPartition(key.topic, key.partition) for key in keys]
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    admin = cluster.admin()
    # Without a timeout: confluent-kafka 2.x raises SystemError when it is given one here. The library's is 60 s.
    answers: dict[Any, Any] = wait(lambda: admin.elect_leaders(kind, wanted), "the election")
    outcomes = {}
    for partition, error in answers.items():
        key = TopicPartition(partition.topic, partition.partition)
        outcomes[key] = None if error is None else _election_error(key, error)
    return dict(sorted(outcomes.items()))


def _election_error(key: TopicPartition, error: Any) -> CliError:
    cause = error.args[0] if isinstance(error, Exception) else error
    return explain(cause.name(), cause.str(), str(key))
