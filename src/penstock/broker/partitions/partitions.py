"""The partitions this broker hosts, kept in step with the metadata image."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from penstock.broker.partitions.partition import Partition
from penstock.cluster.image import ImageDelta, MetadataImage, TopicImage
from penstock.core.clock import Clock
from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import TopicCounters
from penstock.core.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.directories.partition_directories import NewPartition
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger("penstock.broker.partitions.partitions")


# Directories made between two turns of the loop: about 10 ms of a thread's time.
_DIRECTORIES_PER_STEP = 100


class Partitions:
    def __init__(
        self,
        node_id: int,
        directories: LogDirectories,
        settings_for: Callable[[str], LogSettings],
        metrics: TopicCounters,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._directories = directories
        self._settings_for = settings_for
        self._metrics = metrics
        self._clock = clock
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._names: dict[TopicId, str] = {}
        self._without_log: set[tuple[str, int]] = set()  # partitions whose log could not be created
        self._is_started = False  # the first image is what was there before

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get((topic, partition))

    def why_missing(self, topic: str, partition: int) -> ErrorCode:
        """What to say of a partition that `find` does not find."""
        is_ours = (topic, partition) in self._without_log
        return ErrorCode.KAFKA_STORAGE_ERROR if is_ours else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def topic_name(self, topic_id: TopicId) -> str | None:
        return self._names.get(topic_id)

    def is_online(self, topic: str, partition: int) -> bool:
        found = self._partitions.get((topic, partition))
        return found is not None and found.log.offline_reason is None

    @staticmethod
    def is_internal(topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    # -------------------------------------------------------------------------------------------- following the image

    def remove_strays(self, image: MetadataImage) -> None:
        """Deletes the logs of topics that were deleted, where a crash came before the removal of the files.

        A log with another topic's id stays, offline: somebody moved its files, and only a person can say what they are.
        """
        for topic_partition in list(self._directories.logs):
            if image.partition(*topic_partition) is None:
                logger.warning("deleting %s: its topic does not exist any more", topic_partition)
                self._directories.delete(topic_partition, self._clock.now_ms())

    async def prepare(self, old: MetadataImage, new: MetadataImage) -> None:
        """Before `apply`: the directories of new partitions are made in a thread, a few at a time."""
        delta = ImageDelta.between(old, new)
        states = [(topic, state) for topic in delta.created for state in topic.partitions]
        for name, index in delta.added:
            added = new.topics[name].partition(index)
            if added is not None:
                states.append((new.topics[name], added))
        wanted = [
            NewPartition(TopicPartition(topic.name, state.partition), topic.topic_id)
            for topic, state in states
            if self._node_id in state.replicas
        ]
        for start in range(0, len(wanted), _DIRECTORIES_PER_STEP):
            creation = self._directories.prepare_creation(wanted[start : start + _DIRECTORIES_PER_STEP])
            if creation is not None:
                await asyncio.to_thread(creation.run)
                self._directories.settle_creation(creation)

    async def settle(self) -> None:
        """After `apply`: the directories of deleted partitions are renamed in a thread. Until then their names are in
        use.
        """
        renames = self._directories.prepare_renames()
        if renames is not None:
            await asyncio.to_thread(renames.run)
            self._directories.settle_renames(renames)

    def apply(self, old: MetadataImage, new: MetadataImage) -> ImageDelta:
        """Creates, changes and deletes partitions so that they match `new`. A partition whose disk fails is left
        offline.
        """
        delta = ImageDelta.between(old, new)
        for topic in delta.deleted:
            self._remove_topic(topic)
        changed = {topic_partition.topic for topic_partition in (*delta.added, *delta.changed)}
        changed |= {topic.name for topic in (*delta.created, *delta.configured)}
        fresh = self._fresh_partitions(delta)
        for name in new.topics if delta.broker_configs_changed else changed:
            self._update_topic(new.topics[name], fresh)
        return delta

    def _fresh_partitions(self, delta: ImageDelta) -> frozenset[TopicPartition]:
        """Those that never had a log. At the start there is no telling them from those in a directory that fails."""
        is_start, self._is_started = not self._is_started, True
        if is_start:
            return frozenset()
        created = (TopicPartition(topic.name, each.partition) for topic in delta.created for each in topic.partitions)
        return frozenset((*created, *delta.added))

    def _remove_topic(self, topic: TopicImage) -> None:
        self._names.pop(topic.topic_id, None)
        self._metrics.remove(topic.name)
        for state in topic.partitions:
            self._without_log.discard((topic.name, state.partition))
            partition = self._partitions.pop((topic.name, state.partition), None)
            if partition is not None:
                partition.wake_all()
                self._directories.retire(partition.topic_partition, self._clock.now_ms())

    def _update_topic(self, topic: TopicImage, fresh: frozenset[TopicPartition]) -> None:
        self._names[topic.topic_id] = topic.name
        settings = self._settings_for(topic.name)
        for state in topic.partitions:
            if self._node_id not in state.replicas:
                continue
            partition = self._partitions.get((topic.name, state.partition))
            if partition is not None:
                partition.state = state
                partition.log.update_settings(settings)
                continue
            where = TopicPartition(topic.name, state.partition)
            try:
                log = self._open_log(where, topic.topic_id, settings, is_fresh=where in fresh)
            except (ApiError, OSError) as error:
                logger.error("%s is offline: %s", where, error)
                self._without_log.add(where)
                continue
            self._without_log.discard(where)
            self._partitions[where] = Partition(log, topic.topic_id, state, self._metrics.get(topic.name))
            log.advance_high_watermark(log.log_end_offset if len(state.isr) == 1 else log.high_watermark)

    def _open_log(
        self, where: TopicPartition, topic_id: TopicId, settings: LogSettings, *, is_fresh: bool
    ) -> PartitionLog:
        log = self._directories.logs.get(where)
        if log is None:
            if self._directories.offline and not is_fresh:
                # An empty log made elsewhere would hide the records, and clash with them once the directory is back.
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "its log may be in a data directory that is offline")
            return self._directories.create(where, topic_id, settings)
        log.update_settings(settings)
        if log.topic_id == ZERO_TOPIC_ID and log.offline_reason is None:
            log.assign_topic_id(topic_id)
        elif log.topic_id not in (topic_id, ZERO_TOPIC_ID):
            # Whoever put it there, its records are not this topic's.
            log.go_offline(f"{log.directory} belongs to another topic of the same name; move it away")
        return log
