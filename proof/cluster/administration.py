"""What those who run a cluster ask of it: moves of replicas and leaders, throttles, moves between directories.

A controller that goes meanwhile is no error: the next one is asked. What is asked here may be asked twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.client.move_requests import build_directory_moves, build_reassignment
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.client.sendings import UNSURE
from penstock.cluster.levels import FEATURE
from penstock.core.config.keys.throttles import ALL_REPLICAS, REPLICATION_RATES, THROTTLED_REPLICAS
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsResponse
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.metadata import MetadataResponsePartition
from penstock.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.testing.history import Where

Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)
# Replicas to be, the preferred leader first; None cancels what is under way.
Moves = Mapping[Where, Sequence[int] | None]

_TIMEOUT_S = 30.0
_PATIENCE = RetryPolicy(60.0, 0.05, 0.5)
_POLL_S = 0.05
# A broker of the target is on its way back.
_PASSING = UNSURE | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
}
_PREFERRED = 0
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1


class Asked(Protocol):
    """A cluster of any kind. OSError when no answer comes."""

    @property
    def node_ids(self) -> Sequence[int]: ...

    def partitions(self) -> Mapping[Where, MetadataResponsePartition]: ...

    def ask(self, node_id: int, request: Message, response: type[Response]) -> Response: ...

    def ask_controller(self, request: Message, response: type[Response], timeout_s: float) -> Response: ...


class Administration:
    def __init__(self, cluster: Asked) -> None:
        self._cluster = cluster

    # ---- replicas

    def replicas(self) -> dict[Where, tuple[int, ...]]:
        """Of all partitions, internal ones too; those that come and those that leave are among them."""
        return {where: tuple(state.replica_nodes) for where, state in self._cluster.partitions().items()}

    def reassign(self, moves: Moves) -> None:
        """A move that is over already cannot be cancelled, which is fine."""
        request = build_reassignment(sorted(moves.items()), int(_TIMEOUT_S * 1000))

        def ask() -> None:
            answer = self._cluster.ask_controller(request, AlterPartitionReassignmentsResponse, _TIMEOUT_S)
            codes = [(answer.error_code, answer.error_message)]
            codes += [(row.error_code, row.error_message) for each in answer.responses for row in each.partitions]
            _check(codes, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)

        _try(ask)

    def moving(self) -> list[str]:
        """What is under way."""

        def ask() -> list[str]:
            request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=int(_TIMEOUT_S * 1000))
            answer = self._cluster.ask_controller(request, ListPartitionReassignmentsResponse, _TIMEOUT_S)
            _check([(answer.error_code, answer.error_message)])
            return [f"{topic.name}-{row.partition_index}" for topic in answer.topics for row in topic.partitions]

        return _try(ask)

    def wait_until_moved(self, timeout_s: float, poll_s: float = _POLL_S) -> str:
        """Empty, or what is still under way when the time is up. Each look costs the controller something."""
        return wait_until_none(self.moving, timeout_s, "still under way", poll_s)

    # ---- leaders

    def elect_preferred(self) -> None:
        request = ElectLeadersRequest(
            election_type=_PREFERRED, topic_partitions=None, timeout_ms=int(_TIMEOUT_S * 1000)
        )

        def ask() -> None:
            answer = self._cluster.ask_controller(request, ElectLeadersResponse, _TIMEOUT_S)
            _check([(answer.error_code, None)])

        _try(ask)

    def led_by(self, node_id: int) -> list[str]:
        return [
            f"{topic}-{index}"
            for (topic, index), state in sorted(self._cluster.partitions().items())
            if state.leader_id == node_id
        ]

    # ---- the level of the metadata

    def raise_level(self, level: int) -> None:
        """ApiError where a broker does not know the level. A level that is in force already is fine."""
        keys = [FeatureUpdateKey(feature=FEATURE, max_version_level=level)]
        request = UpdateFeaturesRequest(feature_updates=keys, timeout_ms=int(_TIMEOUT_S * 1000))

        def ask() -> None:
            answer = self._cluster.ask_controller(request, UpdateFeaturesResponse, _TIMEOUT_S)
            _check([(answer.error_code, answer.error_message)])

        _try(ask)

    # ---- throttles

    def throttle(self, rate: int | None, topics: Iterable[str]) -> None:
        """Of all moves of these topics; None removes it."""
        value = None if rate is None else str(rate)
        replicas = None if rate is None else ALL_REPLICAS
        self._configure([_resource(_TOPIC, topic, THROTTLED_REPLICAS, replicas) for topic in topics])
        for node_id in self._cluster.node_ids:
            self._configure([_resource(_BROKER, str(node_id), REPLICATION_RATES, value)], node_id)

    def _configure(self, resources: list[AlterConfigsResource], node_id: int | None = None) -> None:
        request = IncrementalAlterConfigsRequest(resources=resources)

        def ask() -> None:
            if node_id is None:
                answer = self._cluster.ask_controller(request, IncrementalAlterConfigsResponse, _TIMEOUT_S)
            else:
                answer = self._cluster.ask(node_id, request, IncrementalAlterConfigsResponse)
            _check([(each.error_code, each.error_message) for each in answer.responses])

        _try(ask)

    # ---- directories

    def directories(self, node_id: int) -> dict[Where, str]:
        """Where a broker has its replicas; one that is being copied to another directory counts where it was."""

        def ask() -> DescribeLogDirsResponse:
            return self._cluster.ask(node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)

        return {
            (topic.name, row.partition_index): result.log_dir
            for result in _try(ask).results
            for topic in result.topics
            for row in topic.partitions
            if not row.is_future_key
        }

    def move_directories(self, node_id: int, targets: Mapping[Where, str]) -> None:
        request = build_directory_moves(sorted(targets.items()))

        def ask() -> None:
            answer = self._cluster.ask(node_id, request, AlterReplicaLogDirsResponse)
            _check([(row.error_code, None) for topic in answer.results for row in topic.partitions])

        _try(ask)


def wait_until_none(find: Callable[[], list[str]], timeout_s: float, what: str, poll_s: float = _POLL_S) -> str:
    deadline = time.monotonic() + timeout_s
    while found := find():
        if time.monotonic() > deadline:
            return f"{', '.join(found[:5])}{' and more' if len(found) > 5 else ''}: {what} after {timeout_s:g} s"
        time.sleep(poll_s)
    return ""


def _resource(kind: int, name: str, keys: Sequence[str], value: str | None) -> AlterConfigsResource:
    operation = _DELETE if value is None else _SET
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=operation, value=value) for key in keys],
    )


def _check(codes: Iterable[tuple[int, str | None]], *harmless: ErrorCode) -> None:
    for code, message in codes:
        if code and code not in harmless:
            raise ApiError(ErrorCode(code), message)


def _try(work: Callable[[], Result]) -> Result:
    def judge(error: Exception) -> Outlook:
        is_final = isinstance(error, ApiError) and error.code not in _PASSING
        return Outlook.FINAL if is_final else Outlook.PASSING

    return Retrying(_PATIENCE).run(work, (OSError, ApiError), judge)
