"""What must hold of several brokers when all is healed. What must hold at every moment is in `watch`.

When everything has come to rest (`check_cluster`): what must hold of one broker holds of every replica
(`proof.simulation.checks`), all images are the same, and replicas have the same bytes below the high
watermark. Replicas of a compacted topic are cleaned each at its own time: what both have kept must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.cluster.decisions.reassignments import is_reassigning
from penstock.cluster.image import MetadataImage, PartitionState
from penstock.core.types import TopicPartition
from penstock.log.formats.names import DELETE_DIRECTORY
from penstock.log.partition_log import PartitionLog
from penstock.protocol.records import Record, iterate_records
from proof.simulation.checks import check_all, read_batches
from proof.simulation.machine import DATA, Machine
from proof.simulation.notebook import Notebook
from proof.simulation.plan import Mode


def is_settled(state: PartitionState) -> bool:
    return state.leader >= 0 and len(state.isr) == len(state.replicas) and not is_reassigning(state)


def is_whole(brokers: Sequence[Broker]) -> bool:
    """All brokers are registered, know the same, every replica is in sync and led, and no replica is on its way."""
    images = [broker.metadata.image for broker in brokers]
    first = images[0]
    return (
        all(image.number == first.number for image in images)
        and len(first.brokers) == len(brokers)
        and all(is_settled(state) for topic in first.topics.values() for state in topic.partitions)
    )


def know_the_same(brokers: Sequence[Broker]) -> bool:
    """Every follower has heard of its leader's high watermark."""
    watermarks: dict[TopicPartition, set[int]] = {}
    for broker in brokers:
        for partition in broker.partitions:
            watermarks.setdefault(partition.topic_partition, set()).add(partition.log.high_watermark)
    return all(len(found) == 1 for found in watermarks.values())


def describe(brokers: Sequence[Broker]) -> str:
    """What each broker believes, where that is not whole."""
    lines = []
    for broker in brokers:
        image = broker.metadata.image
        lacking = [
            f"{topic.name}-{state.partition} leader {state.leader} isr {state.isr} of {state.replicas} "
            f"(coming {state.adding}, leaving {state.removing}) epochs {state[4:6]}"
            for topic in image.topics.values()
            for state in topic.partitions
            if not is_settled(state)
        ]
        registered = {each.node_id: each.epoch for each in image.brokers.values()}
        lines.append(
            f"broker {broker.node_id} at delta {image.number} of controller {image.controller_id} "
            f"with {registered}: {lacking}"
        )
    return "; ".join(lines)


def check_cluster(brokers: Sequence[Broker], notebook: Notebook, mode: Mode) -> None:
    for one, other in pairwise(brokers):
        _compare_images(one.metadata.image, other.metadata.image, notebook)
    for broker in brokers:
        check_all(broker, notebook, mode, lambda topic_partition: _find_led(brokers, topic_partition))
    for topic in brokers[0].metadata.image.topics.values():
        for state in topic.partitions:
            topic_partition = TopicPartition(topic.name, state.partition)
            found = [broker.partitions.find(*topic_partition) for broker in brokers if broker.node_id in state.replicas]
            replicas = [each for each in found if each is not None]
            if len(replicas) < len(state.replicas):
                notebook.fail(f"{topic_partition}: {len(replicas)} replicas exist, {state.replicas} should")
            for one_replica, other_replica in pairwise(replicas):
                _compare_replicas(one_replica, other_replica, notebook)


def check_no_strays(machines: Sequence[Machine], notebook: Notebook) -> None:
    """A broker that a replica left keeps nothing of it, neither in memory nor on its disk. What it has put away to be
    deleted may wait for its wall clock, which a schedule may have set back.
    """
    for node_id, machine in enumerate(machines):
        if machine.server is None:
            continue
        broker = machine.server.broker
        image = broker.metadata.image
        with machine.unseen():
            names = machine.files.list_directories(DATA)
        held = {f"{topic}-{index}" for topic, index in (each.topic_partition for each in broker.partitions)}
        assigned = {
            f"{topic.name}-{state.partition}"
            for topic in image.topics.values()
            for state in topic.partitions
            if node_id in state.replicas
        }
        for name in sorted(held - assigned):
            notebook.fail(f"{name}: {node_id} serves a replica that is not its own any more")
        for name in sorted(name for name in set(names) - assigned if not name.endswith(DELETE_DIRECTORY)):
            notebook.fail(f"{name}: {node_id} has its files, and no replica")


def _find_led(brokers: Sequence[Broker], topic_partition: tuple[str, int]) -> PartitionLog | None:
    found = [broker.partitions.find(*topic_partition) for broker in brokers]
    return next((each.log for each in found if each is not None and each.is_leader), None)


def _compare_images(one: MetadataImage, other: MetadataImage, notebook: Notebook) -> None:
    if one == other:
        return
    parts = ("number", "controller_id", "controller_epoch", "brokers", "topics", "broker_configs", "group_configs")
    different = [name for name in parts if getattr(one, name) != getattr(other, name)]
    notebook.fail(f"images differ when all is over, in {different or 'some part'}")


def _compare_replicas(one: Partition, other: Partition, notebook: Notebook) -> None:
    start = max(one.log.log_start_offset, other.log.log_start_offset)
    end = min(one.log.high_watermark, other.log.high_watermark)
    if one.log.high_watermark != other.log.high_watermark:
        watermarks = one.log.high_watermark, other.log.high_watermark
        notebook.fail(f"{one.topic_partition}: replicas have the high watermarks {watermarks} when all is over")
    # A follower that was never cleaned misses what a leader no longer had, who was cleaned before.
    if "compact" in one.log.settings.cleanup_policy:
        records = [{each.offset: each for each in _records(replica.log, start, end)} for replica in (one, other)]
        differing = [
            offset for offset in records[0].keys() & records[1].keys() if records[0][offset] != records[1][offset]
        ]
    else:
        contents = [
            {header.base_offset: batch for header, batch in read_batches(replica.log, start, end)}
            for replica in (one, other)
        ]
        differing = [
            offset
            for offset in contents[0].keys() | contents[1].keys()
            if contents[0].get(offset) != contents[1].get(offset)
        ]
    if differing:
        notebook.fail(f"{one.topic_partition}: replicas differ from offset {min(differing)} on, below {end}")


def _records(log: PartitionLog, start: int, end: int) -> Iterator[Record]:
    for _, batch in read_batches(log, start, end):
        yield from iterate_records(batch)
