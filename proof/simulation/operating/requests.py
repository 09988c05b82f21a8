"""What operators ask of a cluster, as scripts ask: where replicas are, and that they be elsewhere."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from penstock.client.move_requests import build_reassignment
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from proof.simulation.client import TRANSIENT, Call, ask
from proof.simulation.notebook import Partition

# Never fewer: what one replica alone has acknowledged is lost with it.
FEWEST_REPLICAS = 2
# Nothing is to be cancelled; a replica was asked for whose broker is away.
EXPECTED_OF_MOVES = TRANSIENT | {
    ErrorCode.NONE,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
}
_METADATA_VERSION = 12

Replicas = tuple[int, ...]
# Replicas to be, by partition; None cancels what is under way.
Moves = Mapping[Partition, Replicas | None]


def find_replicas(topics: Iterable[str] | None) -> Generator[Call | float, Any, dict[Partition, Replicas]]:
    """Of these topics, or of all. Those that come and those that leave are among them. Empty where no answer came."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = yield from ask(Call(request, _METADATA_VERSION), MetadataResponse)
    if response is None:
        return {}
    return {
        (topic.name or "", row.partition_index): tuple(row.replica_nodes)
        for topic in response.topics
        if not topic.error_code
        for row in topic.partitions
    }


def reassign(moves: Moves) -> Generator[Call | float, Any, dict[Partition, int] | None]:
    """The error of each partition; None where no answer came."""
    response = yield from ask(Call(build_reassignment(moves.items()), 0), AlterPartitionReassignmentsResponse)
    if response is None:
        return None
    if response.error_code:
        return dict.fromkeys(moves, response.error_code)
    return {
        (topic.name, row.partition_index): row.error_code for topic in response.responses for row in topic.partitions
    }


def unexpected(codes: Mapping[Partition, int], expected: frozenset[ErrorCode]) -> list[str]:
    return [
        f"{topic}-{index}: {ErrorCode(code).name}" for (topic, index), code in codes.items() if code not in expected
    ]


def name_codes(codes: Mapping[Partition, int] | None) -> str:
    if codes is None:
        return "no answer"
    return ", ".join(dict.fromkeys(ErrorCode(code).name for code in codes.values())) or "nothing to do"


def without(replicas: Replicas, node: int, nodes: Sequence[int]) -> Replicas:
    """The same without a node. Another one takes its place, where there is one."""
    kept = tuple(each for each in replicas if each != node)
    others = tuple(each for each in nodes if each != node and each not in kept)
    return kept + others[: max(len(replicas) - len(kept), FEWEST_REPLICAS - len(kept))]
