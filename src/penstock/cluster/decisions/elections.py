"""The controller's decisions about leader elections: ElectLeaders, and the return of leadership to preferred leaders.

The preferred leader is the first replica of the assignment. Leadership gathers on the brokers that stayed while others
were away, so the controller gives it back once brokers lack too large a share of their leaderships.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import UncleanRule, advance, can_take_over, choose_leader, with_in_sync
from penstock.cluster.decisions.states import ChangedStates
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


_IMPOSSIBLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class ElectionResult(NamedTuple):
    topic: str
    partition: int
    code: ErrorCode


def decide_elections(
    image: MetadataImage, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
) -> Decision[ElectionResult]:
    """One result for each named partition, or for each existing partition where `partitions` is None.

    An unclean election needs no permission of the topic: the client that asks for it accepts the loss of records.
    """
    states = ChangedStates(image)
    results = tuple(
        ElectionResult(topic, index, _elect(states, topic, index, election_type))
        for topic, index in (_all_partitions(image) if partitions is None else partitions)
    )
    return Decision(results, states.image())


def decide_offline(image: MetadataImage, may_be_unclean: UncleanRule) -> Decision[None]:
    """Partitions without a leader get one where their topics allow an unclean election: called after a change of
    settings.
    """
    states = ChangedStates(image)
    for topic in image.topics.values():
        offline = [state for state in topic.partitions if state.leader == NO_LEADER]
        if offline and may_be_unclean(topic):
            for state in offline:
                states.put(topic.name, _elect_any(state, image))
    return Decision((), states.image())


def decide_balance(image: MetadataImage, imbalance_percent: int) -> Decision[None]:
    """Preferred leaders lead again, for each live broker that lacks a larger share of its partitions than this.

    `imbalance_percent` is leader.imbalance.per.broker.percentage. A partition without a leader has no live replica in
    sync, or a lost one: there is nothing to balance.
    """
    preferred: Counter[int] = Counter()
    missing: Counter[int] = Counter()
    for topic in image.topics.values():
        for state in topic.partitions:
            preferred[state.replicas[0]] += 1
            missing[state.replicas[0]] += state.leader != state.replicas[0]
    lacking = {node for node in preferred if missing[node] * 100 > preferred[node] * imbalance_percent}
    states = ChangedStates(image)
    for topic in image.topics.values() if lacking else ():
        for state in topic.partitions:
            if state.replicas[0] in lacking and state.leader != NO_LEADER and _can_preferred_lead(state, image):
                states.put(topic.name, advance(state, state._replace(leader=state.replicas[0])))
    return Decision((), states.image())


def _all_partitions(image: MetadataImage) -> Iterable[tuple[str, int]]:
    return ((topic.name, state.partition) for topic in image.topics.values() for state in topic.partitions)


def _elect(states: ChangedStates, topic: str, index: int, election_type: ElectionType) -> ErrorCode:
    state = states.get(topic, index)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not _is_needed(state, election_type):
        return ErrorCode.ELECTION_NOT_NEEDED
    elect = _elect_preferred if election_type is ElectionType.PREFERRED else _elect_any
    after = elect(state, states.before)
    if after is state:
        return _IMPOSSIBLE[election_type]
    states.put(topic, after)
    return ErrorCode.NONE


def _is_needed(state: PartitionState, election_type: ElectionType) -> bool:
    if election_type is ElectionType.PREFERRED:
        return state.leader != state.replicas[0]
    return state.leader == NO_LEADER


def _can_preferred_lead(state: PartitionState, image: MetadataImage) -> bool:
    preferred = state.replicas[0]
    return preferred in state.isr and preferred != state.leader and can_take_over(preferred, image.brokers)


def _elect_preferred(state: PartitionState, image: MetadataImage) -> PartitionState:
    return advance(state, state._replace(leader=state.replicas[0])) if _can_preferred_lead(state, image) else state


def _elect_any(state: PartitionState, image: MetadataImage) -> PartitionState:
    """Prefers an in-sync replica. The others of the set may lead after it, so the set stays with them."""
    live = tuple(node for node in state.isr if node in image.brokers)
    if live:
        return with_in_sync(state, live, image.brokers)
    leader = choose_leader(state.replicas, state.replicas, image.brokers)
    return state if leader == NO_LEADER else with_in_sync(state, (leader,), image.brokers)
