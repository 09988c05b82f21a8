"""Replicas sent to other directories of their broker, and what is said of each when the broker ends in between."""

from __future__ import annotations

from collections.abc import Callable

from penstock.admin.queries.moves import MOVES_AT_ONCE
from penstock.admin.state.brokers import BrokerState
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.moves import move_directories
from penstock.cli.errors import ExitCode
from penstock.cli.plans.assignments import ReplicaPlace
from penstock.core.types import TopicPartition
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_client_id, decode_request_header, encode_response_header
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.unit.client.scripted_broker import frame, serving

REFUSED = 3


def ending_broker() -> Callable[[bytes], bytes | None]:
    """Refuses partition 3, takes the other moves of the first request, and is gone at the second one."""
    answered = 0

    def answer(request: bytes) -> bytes | None:
        nonlocal answered
        header = decode_request_header(request)
        is_move = header.api_key == AlterReplicaLogDirsRequest.API_KEY
        message: Message
        if is_move:
            answered += 1
            if answered > 1:
                return None
            _, position = decode_client_id(request, True)
            asked = decode(AlterReplicaLogDirsRequest, request, header.api_version, position)
            rows = [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=ErrorCode.LOG_DIR_NOT_FOUND if index == REFUSED else 0
                )
                for index in asked.dirs[0].topics[0].partitions
            ]
            message = AlterReplicaLogDirsResponse(
                results=[AlterReplicaLogDirTopicResult(topic_name="t", partitions=rows)]
            )
        else:
            served = ApiVersion(api_key=AlterReplicaLogDirsRequest.API_KEY, max_version=2)
            message = ApiVersionsResponse(api_keys=[served])
        return frame(encode_response_header(header.correlation_id, is_move) + encode(message, header.api_version))

    return answer


def test_only_unanswered_places_fail_when_the_broker_ends_between_two_requests() -> None:
    count = MOVES_AT_ONCE + 2
    wanted = {ReplicaPlace(TopicPartition("t", index), 1): "/b" for index in range(count)}
    with serving(ending_broker()) as port:
        brokers = {1: BrokerState(1, "127.0.0.1", port, None)}
        failures = move_directories(ClusterClient(f"127.0.0.1:{port}"), brokers, wanted)
    found = {place.key.partition: failure for place, failure in failures.items()}
    assert sorted(found) == [REFUSED, MOVES_AT_ONCE, MOVES_AT_ONCE + 1]
    assert found[REFUSED].name == ErrorCode.LOG_DIR_NOT_FOUND.name
    assert found[MOVES_AT_ONCE].exit_code is ExitCode.UNREACHABLE
