"""The controller's decision about in-sync sets: AlterPartition, which a leader sends when followers catch up or lag.

The rules and their order are those of Kafka's controller:

1. An epoch above the controller's: NOT_CONTROLLER, because the leader knows a newer controller.
2. A leader epoch below: FENCED_LEADER_EPOCH, because the leader has been replaced.
3. The sender does not lead: INVALID_REQUEST.
4. A partition epoch below: INVALID_UPDATE_VERSION, because the leader has not seen the newest state.
5. A set that is empty, names a broker twice or one without a replica, or lacks the leader: INVALID_REQUEST.
6. A member that is not registered, about to stop, or registered anew since the leader saw it: INELIGIBLE_REPLICA. The
   leader itself may be about to stop: it still leads where no other member was in sync.
7. The change is made. Where it completes a reassignment, or relieves a leader that is about to stop, another broker may
   lead afterwards: NEW_LEADER_ELECTED, though the change was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import can_take_over, check_broker_epoch, with_in_sync
from penstock.cluster.decisions.states import ChangedStates
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from penstock.replication.in_sync import is_below_minimum

# The epoch of a member that its leader does not know: not compared.
_UNKNOWN_EPOCH = -1


class Alteration(NamedTuple):
    """The changes that one leader requests in one request."""

    asker: int
    asker_epoch: int
    changes: Sequence[InSyncChange]


# The result of one request among several: its results, or its error as a whole.
Outcome = tuple[AlterPartitionResult, ...] | Exception


def can_wait(image: MetadataImage, changes: Iterable[InSyncChange], minimum_of: Callable[[TopicImage], int]) -> bool:
    """Whether no client would notice a slightly later change: followers join partitions that move, whose replicas from
    before the move are all in sync, and which have as many in sync as writers need. `minimum_of` gives a topic's
    min.insync.replicas.
    """
    minimums: dict[str, int] = {}
    for change in changes:
        topic = image.topics_by_id.get(change.topic_id)
        state = None if topic is None else topic.partition(change.partition)
        if topic is None or state is None or not _is_step_of_move(state, change):
            return False
        if topic.name not in minimums:
            minimums[topic.name] = minimum_of(topic)
        if is_below_minimum(len(state.isr), minimums[topic.name], len(state.replicas)):
            return False
    return True


def _is_step_of_move(state: PartitionState, change: InSyncChange) -> bool:
    if not state.adding:
        return False
    settled = {node_id for node_id in state.replicas if node_id not in state.adding}
    return settled <= set(state.isr) <= {node_id for node_id, _ in change.isr}


def decide_alterations(image: MetadataImage, alterations: Iterable[Alteration]) -> Decision[Outcome]:
    """Several requests in one decision, one after the other. A request that is refused as a whole changes nothing."""
    outcomes: list[Outcome] = []
    for alteration in alterations:
        try:
            decision = decide_alter_partition(image, *alteration)
        except ApiError as error:
            outcomes.append(error)
        else:
            outcomes.append(decision.results)
            image = decision.image
    return Decision(tuple(outcomes), image)


def decide_alter_partition(
    image: MetadataImage, asker: int, asker_epoch: int, changes: Sequence[InSyncChange]
) -> Decision[AlterPartitionResult]:
    """One result for each change. Raises ApiError(STALE_BROKER_EPOCH) for the request as a whole."""
    check_broker_epoch(image, asker, asker_epoch)
    states = ChangedStates(image)
    results = tuple(_alter(states, asker, change) for change in changes)
    return Decision(results, states.image())


def _alter(states: ChangedStates, asker: int, change: InSyncChange) -> AlterPartitionResult:
    def refuse(code: ErrorCode) -> AlterPartitionResult:
        return AlterPartitionResult(change.topic_id, change.partition, code, None)

    topic = states.before.topics_by_id.get(change.topic_id)
    if topic is None:
        return refuse(ErrorCode.UNKNOWN_TOPIC_ID)
    state = states.get(topic.name, change.partition)
    if state is None:
        return refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        _check(states.before, state, asker, change)
    except ApiError as error:
        return refuse(error.code)
    isr = _proposed(states.before, state, asker, change)
    after = with_in_sync(state, isr, states.before.brokers)
    states.put(topic.name, after)
    code = ErrorCode.NONE if after.leader == asker else ErrorCode.NEW_LEADER_ELECTED
    return AlterPartitionResult(change.topic_id, change.partition, code, after)


def _check(image: MetadataImage, state: PartitionState, asker: int, change: InSyncChange) -> None:
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if change.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if asker != state.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if change.partition_epoch < state.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)
    members = [node_id for node_id, _ in change.isr]
    if len(set(members)) < len(members) or not set(members) <= set(state.replicas) or asker not in members:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(image, asker, *member) for member in change.isr):
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)


def _is_eligible(image: MetadataImage, asker: int, node_id: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(node_id)
    if broker is None or (broker.is_stopping and node_id != asker):
        return False
    return broker_epoch in (_UNKNOWN_EPOCH, broker.epoch)


def _proposed(image: MetadataImage, state: PartitionState, asker: int, change: InSyncChange) -> tuple[int, ...]:
    members = tuple(node_id for node_id, _ in change.isr)
    if len(members) > 1 and not can_take_over(asker, image.brokers):
        return tuple(node_id for node_id in members if node_id != asker)
    # The same members in another order are no change.
    return state.isr if set(members) == set(state.isr) else members
