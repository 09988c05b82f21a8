"""The controller's decision when a broker has lost replicas: their disk has failed, and the broker goes on (KIP-112).

Such a replica counts as dead:
1. It leaves an in-sync set that has another live member. If it led, one of those leads.
2. As the last live member it stays in the set, as the last member always does, and no replica leads. Only where the
   topic allows it a replica out of sync leads at once.
3. A replica that is not in sync and does not lead does not concern the controller.

A lost replica cannot join again: it does not fetch. When its broker restarts with a repaired disk, the replica returns
as any other does. Elections after brokers came or went pass over a replica that the controller knows to be lost. Where
an operator or a newly elected controller elects it, the broker's next report takes that back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import (
    UncleanRule,
    advance,
    check_broker_epoch,
    choose_leader,
    with_in_sync,
)
from penstock.cluster.decisions.states import ChangedStates
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicImage
from penstock.core.types import TopicId
from penstock.protocol.errors import ErrorCode
from penstock.replication.changes import LostReplica, LostReplicaResult


class KnownLoss(NamedTuple):
    """The replica on `node_id` was lost in this epoch of the broker. No broker has led since, in this state."""

    state: PartitionState
    node_id: int
    broker_epoch: int


Losses = Mapping[tuple[TopicId, int], KnownLoss]  # by topic id and partition


def decide_lost_replicas(
    image: MetadataImage, asker: int, asker_epoch: int, lost: Sequence[LostReplica], may_be_unclean: UncleanRule
) -> Decision[LostReplicaResult]:
    """One result for each replica. Raises ApiError(STALE_BROKER_EPOCH) for the request as a whole."""
    check_broker_epoch(image, asker, asker_epoch)
    states = ChangedStates(image)
    results = tuple(LostReplicaResult(*each, _lose(states, asker, each, may_be_unclean)) for each in lost)
    return Decision(results, states.image())


def judge_replica(image: MetadataImage, node_id: int, topic_id: TopicId, partition: int) -> ErrorCode:
    """NONE where the broker has such a replica."""
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    state = image.partition(topic.name, partition)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if node_id in state.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _lose(states: ChangedStates, asker: int, lost: LostReplica, may_be_unclean: UncleanRule) -> ErrorCode:
    code = judge_replica(states.before, asker, lost.topic_id, lost.partition)
    if code is not ErrorCode.NONE:
        return code
    topic = states.before.topics_by_id[lost.topic_id]
    state = states.get(topic.name, lost.partition)
    assert state is not None, "a decision takes no partition away"
    states.put(topic.name, _without(state, asker, states.before, topic, may_be_unclean))
    return ErrorCode.NONE


def _without(
    state: PartitionState, lost: int, image: MetadataImage, topic: TopicImage, may_be_unclean: UncleanRule
) -> PartitionState:
    others = tuple(node for node in state.isr if node != lost and node in image.brokers)
    if lost in state.isr and others:
        return with_in_sync(state, others, image.brokers)
    if state.leader != lost:
        return state
    candidates = [node for node in state.replicas if node != lost]
    leader = choose_leader(state.replicas, candidates, image.brokers) if may_be_unclean(topic) else NO_LEADER
    if leader == NO_LEADER:
        return advance(state, state._replace(leader=NO_LEADER))
    return with_in_sync(state, (leader,), image.brokers)
