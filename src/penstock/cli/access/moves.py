"""Telling a cluster to move replicas, or to stop moving them, and who should lead. A refusal is an error for each
partition, and says nothing about the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.admin.state.brokers import BrokerState
from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, ClusterClient, wait
from penstock.cli.access.cluster_now import BROKER_PATIENCE_S, ask_controller
from penstock.cli.access.raw_client import check_error, open_broker
from penstock.cli.errors import CliError, ExitCode, explain
from penstock.cli.plans.assignments import ReplicaPlace, Replicas
from penstock.client.move_requests import build_directory_moves, build_reassignment
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsResponse

# One request is one decision of the controller. This many states fit well into a transaction of ZooKeeper, and the
# brokers have something to do while the next ones are being asked for.
BATCH = 500

Failures = dict[TopicPartition, CliError]


def start_moves(cluster: ClusterClient, wanted: Mapping[TopicPartition, Replicas | None]) -> Failures:
    """None cancels the move of a partition. Asking for what is so already, or under way, changes nothing."""
    failures: Failures = {}
    keys = sorted(wanted)
    for start in range(0, len(keys), BATCH):
        batch = ((key, wanted[key]) for key in keys[start : start + BATCH])
        request = build_reassignment(batch, round(REQUEST_TIMEOUT_SECONDS * 1000))
        response = ask_controller(cluster, request, AlterPartitionReassignmentsResponse)
        check_error(response.error_code, "the reassignment", response.error_message)
        for topic in response.responses:
            for answer in topic.partitions:
                if answer.error_code != ErrorCode.NONE:
                    key = TopicPartition(topic.name, answer.partition_index)
                    failures[key] = _failure(key, answer.error_code, answer.error_message)
    return failures


def cancel_moves(cluster: ClusterClient, keys: Iterable[TopicPartition]) -> Failures:
    """A move that has ended meanwhile is no failure."""
    failures = start_moves(cluster, dict.fromkeys(keys))
    ended = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.name
    return {key: failure for key, failure in failures.items() if failure.name != ended}


def _failure(subject: object, code: int, message: str | None = None) -> CliError:
    error = ErrorCode(code)
    return CliError(f"{subject}: {message or describe(error)}", name=error.name)


# ---------------------------------------------------------------------------------------------------- directories


def move_directories(
    cluster: ClusterClient, brokers: Mapping[int, BrokerState], wanted: Mapping[ReplicaPlace, str]
) -> dict[ReplicaPlace, CliError]:
    """What could not be started. A broker that has no such replica yet says so, and remembers the directory.

    A broker that does not answer is a failure of its places alone: somebody may be restarting it.
    """
    failures: dict[ReplicaPlace, CliError] = {}
    for node_id in sorted({place.broker for place in wanted}):
        if node_id not in brokers:  # it may come back
            gone = (place for place in wanted if place.broker == node_id)
            failures |= {place: _failure(place, ErrorCode.REPLICA_NOT_AVAILABLE) for place in gone}
            continue
        request = build_directory_moves(
            (place.key, path) for place, path in sorted(wanted.items()) if place.broker == node_id
        )
        node = brokers[node_id]
        try:
            with open_broker(cluster, (node.host, node.port), BROKER_PATIENCE_S) as broker:
                response = broker.request(request, AlterReplicaLogDirsResponse)
        except CliError as error:
            if error.exit_code is not ExitCode.UNREACHABLE:
                raise
            failures |= {place: error for place in wanted if place.broker == node_id}
            continue
        for topic in response.results:
            for answer in topic.partitions:
                if answer.error_code != ErrorCode.NONE:
                    place = ReplicaPlace(TopicPartition(topic.topic_name, answer.partition_index), node_id)
                    failures[place] = _failure(place, answer.error_code)
    return failures


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
