"""The controller's decisions about moves of replicas: AlterPartitionReassignments and its list (KIP-455).

A reassignment has three steps:
1. The partition gets the replicas of its target first, and after them those that will leave. `adding` and `removing`
   name the difference to its former replicas.
2. The leader asks for one in-sync replica after the other (`decide_alter_partition`).
3. When all replicas of the target are in sync, the others leave (`complete_reassignment`). The leader epoch rises then,
   so that a follower that has left cannot come back by an old answer. Where the leader leaves, the first replica of the
   target leads.

A target whose replicas are all in sync already, or that only changes their order, is complete at once. A new target
replaces the old target: replicas that the old target was adding and the new target does not have leave at once. Without
a target the replicas that were being added leave, and the others remain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import (
    UncleanRule,
    advance,
    choose_leader,
    complete_reassignment,
    with_assignment,
)
from penstock.cluster.decisions.placement import check_assignment
from penstock.cluster.decisions.states import ChangedStates
from penstock.cluster.image import MetadataImage, PartitionState
from penstock.protocol.errors import ApiError, ErrorCode


class ReassignmentRequest(NamedTuple):
    topic: str
    partition: int
    # None cancels the reassignment.
    replicas: tuple[int, ...] | None


class ReassignmentResult(NamedTuple):
    topic: str
    partition: int
    code: ErrorCode
    message: str | None


def decide_reassignments(
    image: MetadataImage,
    requests: Sequence[ReassignmentRequest],
    may_be_unclean: UncleanRule,
    *,
    may_change_replication_factor: bool = True,
) -> Decision[ReassignmentResult]:
    states = ChangedStates(image)
    results = []
    changed: set[tuple[str, int]] = set()
    for request in requests:
        topic, index, replicas = request
        try:
            if (topic, index) in changed:  # a state may be written once in a transaction
                raise ApiError(ErrorCode.INVALID_REQUEST, f"The request changes {topic}:{index} more than once.")
            state = _find(states, topic, index)
            if replicas is not None:
                check_assignment(image, replicas)
                if not may_change_replication_factor:
                    _check_factor(state, replicas)
            after = _reassign(states, request, state, may_be_unclean)
            if after is not state:
                changed.add((topic, index))
            states.put(topic, after)
        except ApiError as error:
            results.append(ReassignmentResult(topic, index, error.code, error.message))
        else:
            results.append(ReassignmentResult(topic, index, ErrorCode.NONE, None))
    return Decision(tuple(results), states.image())


def take_back_moves(image: MetadataImage, partitions: Mapping[str, Collection[int]]) -> MetadataImage:
    """Ends the moves of these partitions where they began, where that needs no unclean election. The others get their
    states in a new epoch, so that a delta has each of them. A topic without such moves stays as it is.
    """
    states = ChangedStates(image)
    for topic, indexes in partitions.items():
        found = [image.topics[topic].partitions[index] for index in indexes]
        after = [_taken_back(states, topic, state) for state in found]
        if any(is_reassigning(before) and not is_reassigning(now) for before, now in zip(found, after, strict=True)):
            for state in after:
                states.put(topic, state)
    return states.image()


def _taken_back(states: ChangedStates, topic: str, state: PartitionState) -> PartitionState:
    try:
        return _reassign(states, ReassignmentRequest(topic, state.partition, None), state, lambda _: False)
    except ApiError:  # the partition does not move, or no replica in sync would be left
        return state._replace(partition_epoch=state.partition_epoch + 1)


def is_reassigning(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def _find(states: ChangedStates, topic: str, index: int) -> PartitionState:
    if topic not in states.before.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic of this name.")
    state = states.get(topic, index)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    return state


def _check_factor(state: PartitionState, replicas: tuple[int, ...]) -> None:
    """KIP-860. A reassignment in progress has its target's number of replicas."""
    count = len(state.replicas) - len(state.removing)
    if len(replicas) != count:
        change = f"from {count} to {len(replicas)}"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed {change}")


def _reassign(
    states: ChangedStates, request: ReassignmentRequest, state: PartitionState, may_be_unclean: UncleanRule
) -> PartitionState:
    brokers = states.before.brokers
    # Replicas that a reassignment in progress is adding do not belong to the partition yet.
    original = tuple(node for node in state.replicas if node not in state.adding)
    if request.replicas is None:
        if not is_reassigning(state):
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        after = state._replace(replicas=original, adding=(), removing=())
    else:
        removing = tuple(sorted(node for node in original if node not in request.replicas))
        adding = tuple(sorted(node for node in request.replicas if node not in original))
        after = state._replace(replicas=request.replicas + removing, adding=adding, removing=removing)
    isr = tuple(node for node in state.isr if node in after.replicas)
    if isr:
        return with_assignment(state, after._replace(isr=isr), brokers)
    # All replicas in sync would leave: the remaining replicas lack records.
    if not may_be_unclean(states.before.topics[request.topic]):
        which = f"{request.topic}:{request.partition}"
        reason = (
            f"Unable to revert partition assignment for {which} because it would require an unclean leader election."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    leader = choose_leader(after.replicas, after.replicas, brokers)
    isr = (leader,) if leader in after.replicas else after.replicas[:1]
    return advance(state, complete_reassignment(after._replace(leader=leader, isr=isr)))
