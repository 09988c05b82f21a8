"""Changes of the state of one partition: its epochs, the choice of its leader, and the end of a reassignment.

`advance` is the only way from one state of a partition to the next, so the epochs rise by these rules:
- `partition_epoch` by one whenever anything changes, because it is the version of the state's node in the store.
- `leader_epoch` by one when the leader changes, also to or from no leader; when a replica is taken out of the
  assignment; and where the caller begins a new term though the leader stays. A change of the in-sync set alone begins
  no term (KAFKA-15021).

A leader is the first broker in the order of the assignment that can lead, and stays while it can lead. A broker that is
about to stop leads only where no other can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from penstock.cluster.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode

# Whether a replica that is not in sync may lead a topic's partitions, at the risk of losing records.
UncleanRule = Callable[[TopicImage], bool]


def check_broker_epoch(image: MetadataImage, node_id: int, broker_epoch: int) -> None:
    """Raises ApiError(STALE_BROKER_EPOCH) for a request by a broker that was away since (KIP-380)."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.epoch != broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH)


def can_take_over(node_id: int, brokers: Mapping[int, BrokerRegistration]) -> bool:
    """Whether the broker is here and is not about to stop."""
    broker = brokers.get(node_id)
    return broker is not None and not broker.is_stopping


def choose_leader(
    replicas: tuple[int, ...], candidates: Collection[int], brokers: Mapping[int, BrokerRegistration]
) -> int:
    """The first of the replicas that is a live candidate, preferably one that is not about to stop; NO_LEADER if
    none.
    """
    able = [node for node in replicas if node in candidates and node in brokers]
    return next((node for node in able if not brokers[node].is_stopping), able[0] if able else NO_LEADER)


def with_in_sync(
    state: PartitionState,
    isr: tuple[int, ...],
    brokers: Mapping[int, BrokerRegistration],
    *,
    is_new_term: bool = False,
) -> PartitionState:
    """The next state with this in-sync set: a reassignment that it completes ends, and the leader stays if it can."""
    return with_assignment(state, state._replace(isr=isr), brokers, is_new_term=is_new_term)


def with_assignment(
    before: PartitionState,
    after: PartitionState,
    brokers: Mapping[int, BrokerRegistration],
    *,
    is_new_term: bool = False,
) -> PartitionState:
    """The same where the replicas may change as well. `after` has the leader and the epochs of `before`."""
    after = complete_reassignment(after)
    leader = _keep_or_choose_leader(after, brokers)
    return advance(before, after if leader == after.leader else after._replace(leader=leader), is_new_term=is_new_term)


def complete_reassignment(state: PartitionState) -> PartitionState:
    """A reassignment ends when all replicas that remain are in sync. The others leave then (KIP-455)."""
    if not state.adding and not state.removing:
        return state
    replicas = tuple(node for node in state.replicas if node not in state.removing)
    if not replicas or not set(replicas) <= set(state.isr):
        return state
    isr = tuple(node for node in state.isr if node in replicas)
    return state._replace(replicas=replicas, isr=isr, adding=(), removing=())


def advance(before: PartitionState, after: PartitionState, *, is_new_term: bool = False) -> PartitionState:
    """The state `after` with its epochs, or the same object as `before` where nothing changed."""
    if after == before and not is_new_term:
        return before
    is_new_term |= after.leader != before.leader
    if after.replicas != before.replicas:
        is_new_term |= not set(before.replicas) <= set(after.replicas)
    return after._replace(leader_epoch=before.leader_epoch + is_new_term, partition_epoch=before.partition_epoch + 1)


def _keep_or_choose_leader(state: PartitionState, brokers: Mapping[int, BrokerRegistration]) -> int:
    """The present leader while it can lead: a new leader costs the partition's clients a round trip at least."""
    leader = state.leader
    can_stay = leader in state.isr and leader in brokers
    if can_stay and not brokers[leader].is_stopping:
        return leader
    chosen = choose_leader(state.replicas, state.isr, brokers)
    return leader if can_stay and brokers[chosen].is_stopping else chosen
