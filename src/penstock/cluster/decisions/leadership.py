"""How the state of one partition changes: the epochs, and who may lead.

`change_state` is the only way from one state of a partition to the next, so the epochs go up as they must:
- `partition_epoch` by one whenever anything changes, because it is the version of the state's node in the store.
- `leader_epoch` by one when the leader changes, also to or from nobody, and where the caller says that a new term
  begins though the leader stays. A change of the in-sync set alone begins no term (KAFKA-15021).

A leader is the first broker in the order of the assignment that can lead. A broker that is about to stop leads only
where no other can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from penstock.cluster.image import NO_LEADER, BrokerRegistration, PartitionState, TopicImage

# Whether a replica that is not in sync may lead a topic's partition, and records may be lost by that.
UncleanRule = Callable[[TopicImage], bool]


def change_state(
    state: PartitionState,
    *,
    leader: int | None = None,
    isr: tuple[int, ...] | None = None,
    is_new_term: bool = False,
) -> PartitionState:
    """The state with these values and its epochs; the same object where nothing changes."""
    leader = state.leader if leader is None else leader
    isr = state.isr if isr is None else isr
    is_new_term |= leader != state.leader
    if not is_new_term and isr == state.isr:
        return state
    return state._replace(
        leader=leader,
        isr=isr,
        leader_epoch=state.leader_epoch + is_new_term,
        partition_epoch=state.partition_epoch + 1,
    )


def choose_leader(
    replicas: tuple[int, ...], candidates: Collection[int], brokers: Mapping[int, BrokerRegistration]
) -> int:
    """The first of the replicas that is a live candidate, rather one that is not about to stop; NO_LEADER if none."""
    able = [node for node in replicas if node in candidates and node in brokers]
    return next((node for node in able if not brokers[node].is_stopping), able[0] if able else NO_LEADER)


def keep_or_choose_leader(
    state: PartitionState, candidates: Collection[int], brokers: Mapping[int, BrokerRegistration]
) -> int:
    """The present leader while it can lead: a move costs the partition's clients a round trip at the least."""
    leader, chosen = state.leader, choose_leader(state.replicas, candidates, brokers)
    can_stay = leader in candidates and leader in brokers
    return leader if can_stay and brokers[leader].is_stopping == brokers[chosen].is_stopping else chosen
