"""The partitions this broker hosts, kept in step with the metadata image."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from penstock.broker.partitions.partition import Partition
from penstock.broker.slices import pieces
from penstock.cluster.image import ImageDelta, MetadataImage, PartitionState, TopicImage
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


# Partitions made between two turns of the loop: about 5 ms of a thread's time, and 2 ms of the loop's.
_CREATED_PER_STEP = 50
# Partitions closed in one turn of the loop: about 4 ms. Each step ends with an fsync of the data directory.
_RENAMED_PER_STEP = 200


class Partitions:
    def __init__(
        self,
        node_id: int,
        directories: LogDirectories,
        settings_for: Callable[[TopicImage], LogSettings],
        metrics: TopicCounters,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._directories = directories
        self._read_settings = settings_for
        self._metrics = metrics
        self._clock = clock
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._names: dict[TopicId, str] = {}
        self._settings: dict[str, LogSettings] = {}  # by topic, as the logs have them
        # Made for an image that is about to take effect; None where the disk refused.
        self._prepared: dict[TopicPartition, Partition | None] = {}
        self._prepared_settings: dict[str, LogSettings] = {}
        self._prepared_image: MetadataImage | None = None  # when all of its new partitions are prepared
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
        return found is not None and found.log.availability.offline_reason is None

    @staticmethod
    def is_internal(topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    # -------------------------------------------------------------------------------------------- following the image

    def remove_strays(self, image: MetadataImage) -> None:
        """Deletes the logs of topics that were deleted, where a crash came before the removal of the files.

        A log with another topic's id stays, offline: somebody moved its files, and only a person can say what they are.
        """
        strays = [each for each in self._directories.logs if image.partition(*each) is None]
        for topic, count in Counter(each.topic for each in strays).items():
            logger.warning(
                "deleting the logs of %s (partitions: %d): the topic does not have them any more", topic, count
            )
        for topic_partition in strays:
            self._directories.delete(topic_partition, self._clock.now_ms())

    async def prepare(self, old: MetadataImage, new: MetadataImage) -> str | None:
        """Before `apply`: new partitions are made, a few at a time, so that `apply` takes them over. A thread makes
        the directories. The loop makes the logs, which asks nothing of the disk.

        Returns why the disk refuses a partition, as soon as it does. `abandon` or `apply` must follow.
        """
        settings = self._prepared_settings
        created = self._created(ImageDelta.between(old, new), new)
        while step := list(islice(created, _CREATED_PER_STEP)):
            for topic, _ in step:
                if topic.name not in settings:
                    settings[topic.name] = self._settings_for(topic)
            reason: str | None = None
            creation = self._directories.prepare_creation(
                NewPartition.of(TopicPartition(topic.name, state.partition), topic.topic_id, settings[topic.name])
                for topic, state in step
            )
            if creation is not None:
                await asyncio.to_thread(creation.run)
                self._directories.settle_creation(creation)
                reason = next(iter(creation.refused.values()), None)
            for topic, state in step:
                topic_partition = TopicPartition(topic.name, state.partition)
                self._prepared[topic_partition] = self._open(topic, state, settings[topic.name], is_fresh=True)
            if reason is not None:
                return reason
        self._prepared_image = new
        return None

    async def abandon(self) -> None:
        """After `prepare`, instead of `apply`: the change is not made, and the partitions made for it go."""
        partitions = [partition for partition in self._prepared.values() if partition is not None]
        for topic in {partition.topic_partition.topic for partition in partitions} - set(self._names.values()):
            self._metrics.remove(topic)
            self._settings.pop(topic, None)
        self._forget_prepared()
        for piece in pieces(partitions, _CREATED_PER_STEP):
            logs = [partition.log for partition in piece]
            await asyncio.to_thread(self._directories.drop(logs).run)

    def _forget_prepared(self) -> None:
        self._prepared = {}
        self._prepared_settings = {}
        self._prepared_image = None

    def _created(self, delta: ImageDelta, new: MetadataImage) -> Iterator[tuple[TopicImage, PartitionState]]:
        """Partitions that this broker gets. A partition that is made anew under its old name is left to `apply`: its
        name is in use until then.
        """
        states = ((topic, state) for topic in delta.created for state in topic.partitions)
        added = ((new.topics[name], new.topics[name].partitions[index]) for name, index in delta.added)
        for topic, state in chain(states, added):
            if self._node_id in state.replicas and (topic.name, state.partition) not in self._directories.logs:
                yield topic, state

    async def settle(self) -> None:
        """After `apply`: the logs of deleted partitions are closed, a few at a time, and a thread renames their
        directories. Until then their names are in use.
        """
        while renames := self._directories.prepare_renames(_RENAMED_PER_STEP):
            await asyncio.to_thread(renames.run)
            self._directories.settle_renames(renames)

    def apply(self, old: MetadataImage, new: MetadataImage) -> ImageDelta:
        """Creates, changes and deletes partitions so that they match `new`. A partition whose disk fails is left
        offline. Costs less than 1 us for each partition that `prepare` has made or that is deleted.
        """
        delta = ImageDelta.between(old, new)
        for topic in delta.deleted:
            self._remove_topic(topic)
        changed = {topic_partition.topic for topic_partition in delta.changed}
        changed |= {topic.name for topic in delta.configured}
        grown = {topic.name for topic in delta.created} | {topic_partition.topic for topic_partition in delta.added}
        if self._prepared_image is new:
            self._take_over(delta.created)
            # What is left: topics made anew under their old names, and partitions that were refused, now or before.
            grown &= {topic.name for topic in delta.deleted} | {topic for topic, _ in self._without_log}
        changed |= grown
        is_start, self._is_started = not self._is_started, True
        for name in new.topics if delta.broker_configs_changed else changed:
            topic = new.topics[name]
            # At the start there is no telling those that never had a log from those in a directory that fails.
            first_fresh = len(topic.partitions) if is_start else _partition_count(old, topic)
            settings = None if delta.broker_configs_changed else self._prepared_settings.get(name)
            self._update_topic(topic, settings or self._settings_for(topic), first_fresh)
        self._forget_prepared()
        return delta

    def _take_over(self, created: Iterable[TopicImage]) -> None:
        """In bulk: 10,000 partitions take 2 ms."""
        for topic in created:
            self._names[topic.topic_id] = topic.name
        refused = [topic_partition for topic_partition, partition in self._prepared.items() if partition is None]
        self._without_log.update(refused)
        self._partitions.update((key, partition) for key, partition in self._prepared.items() if partition is not None)

    def _remove_topic(self, topic: TopicImage) -> None:
        self._names.pop(topic.topic_id, None)
        self._metrics.remove(topic.name)
        self._settings.pop(topic.name, None)
        now_ms = self._clock.now_ms()
        for state in topic.partitions:
            self._without_log.discard((topic.name, state.partition))
            partition = self._partitions.pop((topic.name, state.partition), None)
            if partition is not None:
                if partition.waiters:
                    partition.wake_all()
                self._directories.retire(partition.topic_partition, now_ms)

    def _update_topic(self, topic: TopicImage, settings: LogSettings, first_fresh: int) -> None:
        """Partitions from the index `first_fresh` on never had a log."""
        self._names[topic.topic_id] = topic.name
        for state in topic.partitions:
            if self._node_id not in state.replicas:
                continue
            topic_partition = TopicPartition(topic.name, state.partition)
            partition = self._partitions.get(topic_partition)
            if partition is None:
                if topic_partition in self._prepared:
                    partition = self._prepared[topic_partition]
                else:
                    partition = self._open(topic, state, settings, is_fresh=state.partition >= first_fresh)
                if partition is None:
                    self._without_log.add(topic_partition)
                    continue
                self._without_log.discard(topic_partition)
                self._partitions[topic_partition] = partition
            partition.state = state
            if partition.log.settings is not settings:
                partition.log.update_settings(settings)

    def _settings_for(self, topic: TopicImage) -> LogSettings:
        """The same object as long as the settings are equal: then there is nothing to tell the logs."""
        settings = self._read_settings(topic)
        known = self._settings.get(topic.name)
        if known == settings:
            return known
        self._settings[topic.name] = settings
        return settings

    def _open(
        self, topic: TopicImage, state: PartitionState, settings: LogSettings, *, is_fresh: bool
    ) -> Partition | None:
        """None when the disk refuses it."""
        topic_partition = TopicPartition(topic.name, state.partition)
        try:
            log = self._open_log(topic_partition, topic.topic_id, settings, is_fresh=is_fresh)
        except (ApiError, OSError) as error:
            logger.error("%s is offline: %s", topic_partition, error)
            return None
        log.advance_high_watermark(log.log_end_offset if len(state.isr) == 1 else log.high_watermark)
        return Partition(log, topic.topic_id, state, self._metrics.get(topic.name))

    def _open_log(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings, *, is_fresh: bool
    ) -> PartitionLog:
        log = self._directories.logs.get(topic_partition)
        if log is None:
            if self._directories.offline and not is_fresh:
                # An empty log made elsewhere would hide the records, and clash with them once the directory is back.
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "its log may be in a data directory that is offline")
            return self._directories.create(topic_partition, topic_id, settings)
        log.update_settings(settings)
        if log.topic_id == ZERO_TOPIC_ID and log.offline_reason is None:
            log.assign_topic_id(topic_id)
        elif log.topic_id not in (topic_id, ZERO_TOPIC_ID):
            # Whoever put it there, its records are not this topic's.
            log.go_offline(f"{log.directory} belongs to another topic of the same name; move it away")
        return log


def _partition_count(image: MetadataImage, topic: TopicImage) -> int:
    """How many partitions the same topic has in another image."""
    known = image.topics.get(topic.name)
    return len(known.partitions) if known is not None and known.topic_id == topic.topic_id else 0
