"""The decisions of a restore: turns a snapshot into metadata, and elects leaders afterwards. Pure.

A snapshot is older than the logs of the brokers. Since the snapshot, leaders have changed, in-sync sets have shrunk and
grown, topics have come and gone. So nothing in it may be trusted that a broker's disk could contradict:

1. Epochs and ids only rise. Leader epochs, the controller's epoch, the log's position and producer ids rise by a margin
   that no cluster uses up between a snapshot and the loss. A leader's epoch is compared with the brokers' logs as well.
2. In-sync sets are forgotten: a member of the old set may lack acknowledged records. A partition with several replicas
   has no leader and no replica in sync until its replicas have reported the ends of their logs. A partition with one
   replica has its leader as soon as the replica's broker is here.
3. The replica leads whose log has the highest last epoch, and of those the longest log; the others with the same log
   are in sync. It has every record that was acknowledged with acks=all. Be r such a record, on at least
   min.insync.replicas (m) of n replicas. Of any n - m + 1 replicas one has r. The chosen log has an epoch at least as
   high. If it is higher, its leader was elected in sync, so it had r; if it is the same, the log is at least as long.
   So n - m + 1 answers are enough, and with fewer none leads, unless the user accepts the loss of records. A replica
   without any records proves nothing: its disk may be new, or it had hardly begun to copy. While one of the answers
   comes from such a replica, all n are needed. Two cases stay unseen: a new disk with some records, and an m that was
   lower than in the snapshot when r was acknowledged. The guide has the remedies.
4. Changes after the snapshot are not in it. Topics that were deleted since exist again, empty. The logs of topics,
   partitions and replicas that were created since belong to no topic: brokers set them aside and keep them (`-stray`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.decisions.leadership import advance
from penstock.cluster.image import NO_CONTROLLER, NO_LEADER, MetadataImage, PartitionState, TopicImage
from penstock.cluster.store.znodes import ProducerIdBlock
from penstock.core.limits import PRODUCER_ID_BLOCK_SIZE

# The number of elections, changes and controllers between a snapshot and the loss. Epochs have 31 bits: room for 2,000
# restores.
EPOCH_MARGIN = 1_000_000
# The number of registrations of brokers. Each step of that counter is a write of its own, and after a restore no
# broker's epoch is compared with an epoch from before, so a small margin is enough.
BROKER_EPOCH_MARGIN = 1_000
# The number of blocks of producer ids; there are 2^63 ids.
PRODUCER_BLOCK_MARGIN = 1_000_000

ReplicaPlace = tuple[str, int, int]  # topic, partition, broker
LogEnd = tuple[int, int]  # the epoch of the last record, and the end
Waiting = Mapping[tuple[str, int], tuple[int, ...]]  # partitions with the brokers that they need


class Elected(NamedTuple):
    image: MetadataImage
    waiting: Waiting  # partitions with reports of too few replicas


def decide_restored(image: MetadataImage, controller_epoch: int) -> MetadataImage:
    """The metadata for the empty ensemble."""
    return replace(
        image,
        controller_id=NO_CONTROLLER,
        controller_epoch=controller_epoch + EPOCH_MARGIN,
        brokers={},
        away={},  # all brokers: the directories name their owners
        topics={name: _restored_topic(topic) for name, topic in image.topics.items()},
        number=image.number + EPOCH_MARGIN,
    )


def restored_producer_ids(block: ProducerIdBlock | None) -> ProducerIdBlock:
    """Where the snapshot has no block, a broker may have claimed the first block since."""
    first, size = (0, PRODUCER_ID_BLOCK_SIZE) if block is None else block
    return ProducerIdBlock(first + PRODUCER_BLOCK_MARGIN * PRODUCER_ID_BLOCK_SIZE, size)


def _restored_topic(topic: TopicImage) -> TopicImage:
    return topic._replace(partitions=tuple(_restored_state(state) for state in topic.partitions))


def _restored_state(state: PartitionState) -> PartitionState:
    isr = state.replicas if len(state.replicas) == 1 else ()
    return state._replace(isr=isr, leader=NO_LEADER, leader_epoch=state.leader_epoch + EPOCH_MARGIN, partition_epoch=0)


def find_leaderless(image: MetadataImage) -> list[tuple[TopicImage, PartitionState]]:
    """Partitions that wait for rule 3."""
    return [
        (topic, state)
        for topic in image.topics.values()
        for state in topic.partitions
        if state.leader == NO_LEADER and not state.isr
    ]


def find_unled(image: MetadataImage) -> Waiting:
    """Partitions without a leader, also those that get one as soon as their only replica's broker is here."""
    return {
        (topic.name, state.partition): state.replicas
        for topic in image.topics.values()
        for state in topic.partitions
        if state.leader == NO_LEADER
    }


def decide_leaders(
    image: MetadataImage,
    log_ends: Mapping[ReplicaPlace, LogEnd],
    minimums: Mapping[str, int],
    *,
    accepts_loss: bool = False,
) -> Elected:
    """`minimums` are the topics' min.insync.replicas; a topic without one counts as a topic that needs a single
    replica.
    """
    changed: dict[str, dict[int, PartitionState]] = {}
    waiting: dict[tuple[str, int], tuple[int, ...]] = {}
    for topic, state in find_leaderless(image):
        ends = {
            node_id: log_ends[topic.name, state.partition, node_id]
            for node_id in state.replicas
            if node_id in image.brokers and (topic.name, state.partition, node_id) in log_ends
        }
        count = len(state.replicas)
        needed = count - min(minimums.get(topic.name, 1), count) + 1
        if any(end == 0 for _, end in ends.values()):
            needed = count
        if not ends or (len(ends) < needed and not accepts_loss):
            waiting[topic.name, state.partition] = tuple(node for node in state.replicas if node not in ends)
            continue
        changed.setdefault(topic.name, {})[state.partition] = _elect(state, ends)
    topics = {
        name: image.topics[name]._replace(
            partitions=tuple(states.get(state.partition, state) for state in image.topics[name].partitions)
        )
        for name, states in changed.items()
    }
    return Elected(image.with_topics(topics), waiting)


def _elect(state: PartitionState, ends: Mapping[int, LogEnd]) -> PartitionState:
    best = max(ends.values())
    isr = tuple(node_id for node_id in state.replicas if ends.get(node_id) == best)
    # However old the snapshot is, the new term is above every epoch in a log.
    raised = state._replace(leader_epoch=max(state.leader_epoch, *(epoch for epoch, _ in ends.values())))
    return advance(raised, raised._replace(leader=isr[0], isr=isr))
