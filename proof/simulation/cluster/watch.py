"""Looks into several machines while they run. What must hold at every moment:

- A partition has at most one leader in an epoch, and a leader's high watermark never goes back while its epoch lasts.
- What was once below a leader's high watermark is committed: every later leader has it, every registered member of the
  in-sync set has it, and two replicas never differ below their high watermarks.
- The high watermark stands still while fewer replicas are in sync than `min.insync.replicas` asks for.
- A leader that was replaced stops by its own clock, whether or not it hears of its successor.

A clean-up replaces batches at its own time on each replica, so contents of compacted topics are compared at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.cluster.image import NO_LEADER, MetadataImage
from penstock.core.types import TopicId
from penstock.log.partition_log import PartitionLog
from proof.simulation.checks import read_batches
from proof.simulation.machine import Machine
from proof.simulation.notebook import Notebook
from proof.simulation.world import World

# A look at all partitions costs about as much as some events, a look for new images a tenth of one.
_LOOK_EVERY = 16
_LOOK_FOR_IMAGES_EVERY = 4
# How long a replaced leader may believe that it leads: the lease, the time between two looks at it, and half a second
# for an image that is late. A machine that stands still or has a slow disk has more time.
STALE_LEADER_MS = 3_000

_Where = tuple[TopicId, int]
Told = Callable[[MetadataImage, MetadataImage], None]


@dataclass(slots=True)
class _History:
    """What is known of one partition of one topic."""

    leaders: dict[int, int] = field(default_factory=dict)  # by epoch
    watermarks: dict[int, tuple[int, int]] = field(default_factory=dict)  # by epoch: (watermark, partition epoch)
    newest_epoch: int = -1  # in which somebody led
    newest_since_ms: float = 0.0
    committed_end: int = 0
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)  # by first offset: size, checksum
    compared: dict[int, int] = field(default_factory=dict)  # by machine: up to which offset


class Watch:
    def __init__(self, machines: Sequence[Machine], world: World, notebook: Notebook, told: Told) -> None:
        """`told` hears of every image that is newer than all before."""
        self._machines = machines
        self._world = world
        self._notebook = notebook
        self._told = told
        self._histories: dict[_Where, _History] = {}
        self._images: list[MetadataImage | None] = [None] * len(machines)
        self._newest: MetadataImage | None = None
        self._awake_since_ms = [0.0] * len(machines)
        self._events = 0

    def look(self) -> None:
        self._events += 1
        if self._events % _LOOK_FOR_IMAGES_EVERY:
            return
        is_due = self._events % _LOOK_EVERY == 0
        is_new = False
        for place, machine in enumerate(self._machines):
            server = machine.server
            if server is None:
                continue
            image = server.broker.metadata.image
            if image is not self._images[place]:
                self._images[place] = image
                is_new = True
                self._note_image(image)
            elif not is_due:
                continue
            if machine.loop is not None and (machine.loop.is_paused or machine.loop.slowness > 1):
                self._awake_since_ms[place] = self._world.time_ms
            for partition in server.broker.partitions:
                self._look_at(place, partition)
        if is_new or is_due:
            self._look_at_in_sync_sets()

    def _note_image(self, image: MetadataImage) -> None:
        newest = self._newest
        if newest is None or image.number > newest.number:
            self._newest = image
            if newest is not None:
                self._told(newest, image)

    # ---- one replica

    def _look_at(self, place: int, partition: Partition) -> None:
        log = partition.log
        if log.offline_reason is not None:
            return
        where = partition.topic_id, partition.topic_partition.partition
        history = self._histories.get(where)
        if history is None:
            history = self._histories[where] = _History()
        if partition.is_leader:
            self._look_at_leader(place, partition, history)
        if history.compared.get(place) != log.high_watermark and "compact" not in log.settings.cleanup_policy:
            with self._machines[place].unseen():
                self._compare(place, log, history)

    def _look_at_leader(self, place: int, partition: Partition, history: _History) -> None:
        epoch, log = partition.state.leader_epoch, partition.log
        if epoch not in history.leaders:
            self._begin_term(place, partition, history)
        elif history.leaders[epoch] != place:
            self._fail(partition, f"is led by {history.leaders[epoch]} and {place} in epoch {epoch}")
            history.leaders[epoch] = place
        state, watermark = partition.state, log.high_watermark
        before, partition_epoch = history.watermarks.get(epoch, (0, -1))
        if watermark < before:
            self._fail(partition, f"the high watermark of {place} went from {before} to {watermark} in epoch {epoch}")
        is_frozen = len(state.isr) < min(log.settings.min_insync_replicas, len(state.replicas))
        if watermark > before and is_frozen and partition_epoch == state.partition_epoch:
            self._fail(partition, f"the high watermark rose to {watermark} with {state.isr} in sync")
        history.watermarks[epoch] = watermark, state.partition_epoch
        history.committed_end = max(history.committed_end, watermark)
        if epoch < history.newest_epoch:
            since_ms = max(history.newest_since_ms, self._awake_since_ms[place])
            if self._world.time_ms - since_ms > STALE_LEADER_MS:
                self._fail(partition, f"{place} still leads in epoch {epoch}, long after {history.newest_epoch} began")
                history.newest_since_ms = self._world.time_ms

    def _begin_term(self, place: int, partition: Partition, history: _History) -> None:
        epoch, end = partition.state.leader_epoch, partition.log.log_end_offset
        history.leaders[epoch] = place
        if epoch < history.newest_epoch:
            return
        history.newest_epoch, history.newest_since_ms = epoch, self._world.time_ms
        if end < history.committed_end:
            self._fail(
                partition,
                f"{place} leads in epoch {epoch} with {end} records, but {history.committed_end} were committed",
            )

    def _compare(self, place: int, log: PartitionLog, history: _History) -> None:
        """What has come below the high watermark since the last look."""
        end = log.high_watermark
        offset = max(min(history.compared.get(place, 0), end), log.log_start_offset)
        history.compared[place] = end
        for header, _ in read_batches(log, offset, end):
            facts = header.size, header.crc
            if history.batches.setdefault(header.base_offset, facts) != facts:
                self._notebook.fail(
                    f"{log.topic_partition}: {place} has other records at {header.base_offset} than were committed"
                )
                history.batches[header.base_offset] = facts

    # ---- the in-sync sets

    def _look_at_in_sync_sets(self) -> None:
        image = self._newest
        if image is None:
            return
        members = {node_id: broker for node_id, broker in enumerate(self._counted(image)) if broker is not None}
        for topic in image.topics.values():
            for state in topic.partitions:
                history = self._histories.get((topic.topic_id, state.partition))
                if history is None or state.leader == NO_LEADER:
                    continue
                for node_id in state.isr:
                    broker = members.get(node_id)
                    partition = None if broker is None else broker.partitions.find(topic.name, state.partition)
                    if partition is None or partition.topic_id != topic.topic_id or not partition.is_online:
                        continue
                    if partition.log.log_end_offset < history.committed_end:
                        end = partition.log.log_end_offset
                        self._fail(
                            partition, f"{node_id} is in sync with {end} records, {history.committed_end} are committed"
                        )
                        history.committed_end = end  # told once

    def _counted(self, image: MetadataImage) -> list[Broker | None]:
        """The brokers that are still those of the image. One that was away since does not count as in sync."""
        found: list[Broker | None] = []
        for node_id, machine in enumerate(self._machines):
            broker = None if machine.server is None else machine.server.broker
            registration = image.brokers.get(node_id)
            is_counted = (
                broker is not None and registration is not None and broker.metadata.broker_epoch == registration.epoch
            )
            found.append(broker if is_counted else None)
        return found

    def _fail(self, partition: Partition, text: str) -> None:
        self._notebook.fail(f"{partition.topic_partition}: {text}")
