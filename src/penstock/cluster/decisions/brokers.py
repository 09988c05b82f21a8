"""The controller's decision when brokers come, go or come back: in-sync sets and leaders.

A broker whose epoch in the store differs from the epoch in the image was gone meanwhile, whether or not another broker
noticed. It may have lost records that it had acknowledged as a follower, and it knows nothing of its leaderships. So:

1. In-sync members that were here all the time remain in sync; the others leave.
2. Those remain, too, whose new registration names the epoch in the image as the epoch before: the process ended cleanly
   in that epoch, or only its session ended and the process went on. No other process had their ids since, because the
   image would show that, and their logs end where they ended. If the leader is one of them it stays in its term. So the
   clean restart of a standalone node changes no partition, and neither does a frozen store, which ends all sessions but
   perhaps one when it resumes.
3. Where there is none of either kind, one of the live in-sync members leads alone, preferably the last leader, in a new
   term even if it led before: recovery may have truncated records, and the next records at the same offsets must differ
   from them by their epoch (KIP-101). The absent in-sync members do not count then, as in Kafka: to wait for the last
   of them would be to wait for ever after the loss of one disk.
4. Where no in-sync member lives, none leads, and the in-sync set stays as it is: each member has every acknowledged
   record, and the first one that comes will lead. Only where the topic allows it a replica out of sync leads at once.
5. A broker whose data directories are all new, and empty, has lost its data: a disk was replaced. (Not empty: somebody
   has removed meta.properties.) The same holds for an empty broker that is not registered, which is new or was
   unregistered. The broker leaves every in-sync set, also as its last member. Then no broker is in sync and none leads,
   until an operator allows an unclean election: acknowledged records are gone, and that must not go unnoticed.
   Otherwise an empty disk that comes back first after a stop of the whole cluster would lead, and the others would
   truncate the records that it lacks.
6. A replica that was lost with its disk counts as dead while its broker goes on (`lost_replicas`).

The leader changes only where it has to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from penstock.cluster.decisions.decision import Decision
from penstock.cluster.decisions.leadership import UncleanRule, advance, can_take_over, choose_leader, with_in_sync
from penstock.cluster.decisions.lost_replicas import KnownLoss, Losses
from penstock.cluster.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode


class _Attendance(NamedTuple):
    """The live brokers, among them those that were here all the time, those that have the data of the image's epoch,
    and those that have lost their data.
    """

    brokers: Mapping[int, BrokerRegistration]
    steady: frozenset[int]
    unharmed: frozenset[int]
    lost: frozenset[int]


def are_counted(image: MetadataImage, registered: Mapping[int, BrokerRegistration]) -> bool:
    """Whether the image has these brokers, as far as they count, in these epochs."""
    epochs = {node_id: broker.epoch for node_id, broker in _able(image, registered).items()}
    return epochs == {node_id: broker.epoch for node_id, broker in image.brokers.items()}


def decide_registered(
    image: MetadataImage,
    registered: Mapping[int, BrokerRegistration],
    may_be_unclean: UncleanRule,
    losses: Losses = MappingProxyType({}),
) -> Decision[None]:
    """`registered` are the registrations in the store now. Elects also where no broker changed but a leader is missing.

    Topics that keep all their states remain the same objects: 10,000 unchanged partitions take about 5 ms, a changed
    partition about 5 us.
    """
    attendance = _compare(image, _able(image, registered))
    changed: dict[str, TopicImage] = {}
    for topic in image.topics.values():
        states = _next_states(topic, attendance, may_be_unclean, losses)
        if states is not None:
            changed[topic.name] = topic._replace(partitions=states)
    if not changed and attendance.brokers == image.brokers:
        return Decision((), image)
    topics = {**image.topics, **changed} if changed else image.topics
    brokers = attendance.brokers
    directories = {node_id: each.directories for node_id, each in brokers.items() if each.directories}
    return Decision(
        (),
        replace(
            image,
            brokers=brokers,
            topics=topics,
            directories={**image.directories, **directories},
            away={node_id: each for node_id, each in image.registered.items() if node_id not in brokers},
        ),
    )


def decide_unregister(image: MetadataImage, node_id: int) -> Decision[None]:
    """Forgets a broker that is away; it registers again if it comes back. Nothing changes for a present broker: its
    node keeps it registered.

    Replicas of the broker stay in their partitions' lists until somebody moves them, as in Kafka. So does the last
    member of an in-sync set. Raises ApiError(BROKER_ID_NOT_REGISTERED).
    """
    if node_id not in image.registered:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered")
    if node_id in image.brokers:
        return Decision((), image)
    directories = {other: ids for other, ids in image.directories.items() if other != node_id}
    away = {other: each for other, each in image.away.items() if other != node_id}
    return Decision((), replace(image, directories=directories, away=away))


def _able(image: MetadataImage, registered: Mapping[int, BrokerRegistration]) -> dict[int, BrokerRegistration]:
    """A broker that does not know the level in force cannot follow, and stops by itself."""
    return {node_id: broker for node_id, broker in registered.items() if broker.levels.has(image.metadata_level)}


def _compare(image: MetadataImage, registered: Mapping[int, BrokerRegistration]) -> _Attendance:
    brokers: dict[int, BrokerRegistration] = {}
    steady, unharmed, lost = set(), set(), set()
    for node_id in sorted(registered):
        broker, before = registered[node_id], image.brokers.get(node_id)
        if before is not None and before.epoch == broker.epoch:
            steady.add(node_id)
            # Only the image knows of a shutdown in progress: the broker's own node does not have it.
            broker = broker._replace(is_stopping=broker.is_stopping or before.is_stopping)
        elif broker.is_empty and _are_all_new(image, broker):
            lost.add(node_id)
        elif before is not None and before.epoch == broker.previous_epoch:
            unharmed.add(node_id)
        brokers[node_id] = broker
    return _Attendance(brokers, frozenset(steady), frozenset(unharmed), frozenset(lost))


def _are_all_new(image: MetadataImage, broker: BrokerRegistration) -> bool:
    """Whether the broker has none of its former directories. A broker that registers without directories, then or now,
    has a version that did not name them.
    """
    if broker.node_id not in image.registered:
        return bool(broker.directories)
    before = image.directories.get(broker.node_id, ())
    return bool(before and broker.directories) and set(before).isdisjoint(broker.directories)


def _next_states(
    topic: TopicImage, attendance: _Attendance, may_be_unclean: UncleanRule, losses: Losses
) -> tuple[PartitionState, ...] | None:
    """None where all states stay the same."""
    steady = attendance.steady
    affected = [state for state in topic.partitions if state.leader not in steady or not steady.issuperset(state.isr)]
    if not affected:
        return None
    is_unclean_allowed: bool | None = None
    changed: dict[int, PartitionState] = {}
    for state in affected:
        present = _without_lost(attendance, state, losses.get((topic.topic_id, state.partition)))
        after = _elect_in_sync(state, present)
        if after.leader == NO_LEADER and not present.brokers.keys().isdisjoint(state.replicas):
            if is_unclean_allowed is None:
                is_unclean_allowed = may_be_unclean(topic)
            if is_unclean_allowed:
                leader = _choose_out_of_sync(state, present)
                after = with_in_sync(state, (leader,), present.brokers)
        if after is not state:
            changed[state.partition] = after
    if not changed:
        return None
    return tuple(changed.get(state.partition, state) for state in topic.partitions)


def _without_lost(attendance: _Attendance, state: PartitionState, loss: KnownLoss | None) -> _Attendance:
    """For one partition: a replica that is known to be lost counts as absent."""
    if loss is None or loss.state != state:
        return attendance
    broker = attendance.brokers.get(loss.node_id)
    if broker is None or broker.epoch != loss.broker_epoch:
        return attendance
    brokers = {node_id: each for node_id, each in attendance.brokers.items() if node_id != loss.node_id}
    # The replica is not among the unharmed: in their epochs they cannot have reported anything yet.
    return attendance._replace(brokers=brokers, steady=attendance.steady - {loss.node_id})


def _elect_in_sync(state: PartitionState, attendance: _Attendance) -> PartitionState:
    brokers = attendance.brokers
    members = tuple(node for node in state.isr if node not in attendance.lost)
    isr = tuple(node for node in members if node in attendance.steady or node in attendance.unharmed)
    if isr:
        return with_in_sync(state, isr, brokers)
    last = state.leader
    can_stay = last in members and can_take_over(last, brokers)
    leader = last if can_stay else choose_leader(state.replicas, members, brokers)
    if leader == NO_LEADER:
        return advance(state, state._replace(leader=NO_LEADER, isr=members))
    return with_in_sync(state, (leader,), brokers, is_new_term=True)


def _choose_out_of_sync(state: PartitionState, attendance: _Attendance) -> int:
    """A replica with some of the records is better than a replica with none."""
    kept = [node for node in state.replicas if node not in attendance.lost]
    leader = choose_leader(state.replicas, kept, attendance.brokers)
    return choose_leader(state.replicas, state.replicas, attendance.brokers) if leader == NO_LEADER else leader
