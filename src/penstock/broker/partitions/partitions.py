"""The partitions on this broker, kept in step with the metadata image.

A new image takes effect in one turn of the loop: from then on its partitions are found, and deleted partitions are not.
Work that costs more per partition happens before that turn (`prepare`) or after (`settle`), a few partitions at a time.
Work on few partitions happens in the turn itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice

from penstock.broker.partitions.leader_context import LeaderContext
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partition_logs import is_counted_on, open_log, retire
from penstock.broker.partitions.strays import remove_strays
from penstock.broker.slices import pieces
from penstock.cluster.image import ImageDelta, MetadataImage, PartitionState, TopicImage
from penstock.core.clock import Clock
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import TopicCounters
from penstock.core.types import TopicId, TopicPartition
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.directories.partition_directories import NewPartition
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger("penstock.broker.partitions.partitions")


# The number of partitions made between two turns of the loop: about 5 ms of a thread's time, and 2 ms of the loop's.
_CREATED_PER_STEP = 50
# The number of partitions closed in one turn of the loop: about 2 ms. Each step ends with an fsync of the data
# directory.
_RENAMED_PER_STEP = 100
# The number of topics and partitions that go out of service, or get new settings, in one turn of the loop: up to 2 ms,
# since reading the settings of a topic takes 30 us.
_CHANGED_PER_STEP = 50
DEFAULT_LAG_MAX_MS = 30_000  # replica.lag.time.max.ms


class Partitions:
    def __init__(
        self,
        node_id: int,
        directories: LogDirectories,
        settings_for: Callable[[TopicImage], LogSettings],
        metrics: TopicCounters,
        clock: Clock,
        lag_max_ms: int = DEFAULT_LAG_MAX_MS,
    ) -> None:
        self._node_id = node_id
        self.context = LeaderContext(node_id, clock, lag_max_ms)
        self.image: MetadataImage | None = None  # the newest image that has taken effect
        self._directories = directories
        self._read_settings = settings_for
        self._metrics = metrics
        self._clock = clock
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._names: dict[TopicId, str] = {}
        self._settings: dict[str, LogSettings] = {}  # by topic, as the logs have them
        # Whether any topic has asked for the check since the start: then each produced batch is examined.
        self.validates_schemas = False
        self._prepared: dict[tuple[str, int], Partition] = {}  # made for an image that is about to take effect
        self._prepared_settings: dict[str, LogSettings] = {}
        # By `prepare`, among the partitions whose log could not be created.
        self._tried_again: set[TopicPartition] = set()
        self._prepared_image: MetadataImage | None = None  # set when all new partitions of the image are prepared
        self._prepared_delta: ImageDelta | None = None
        # Partitions whose log could not be created, or may be in an offline directory.
        self.without_log: set[tuple[str, int]] = set()
        self.has_lost_directory = False  # see `partition_logs`
        # The remaining work for an image that has taken effect, one step at a time.
        self._retiring: Iterator[None] = iter(())  # takes partitions that are not found any more out of service
        self._configuring: Iterator[None] = iter(())  # gives logs their new settings
        self._is_started = False  # the first image has the partitions from before the start

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, topic: str, partition: int) -> Partition | None:
        return self._partitions.get((topic, partition))

    def why_missing(self, topic: str, partition: int) -> ErrorCode:
        """The error for a partition that `find` does not find."""
        if (topic, partition) in self.without_log:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.state_of(topic, partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # the partition is on other brokers (KAFKA-10223)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def state_of(self, topic: str, partition: int) -> PartitionState | None:
        """The state of any partition of the cluster, with its leader, as far as this broker knows."""
        found = self._partitions.get((topic, partition))
        if found is not None:
            return found.state
        return None if self.image is None else self.image.partition(topic, partition)

    @property
    def settings_in_use(self) -> Collection[LogSettings]:
        """The settings of each topic."""
        return self._settings.values()

    def topic_name(self, topic_id: TopicId) -> str | None:
        return self._names.get(topic_id)

    def is_online(self, topic: str, partition: int) -> bool:
        found = self._partitions.get((topic, partition))
        return found is not None and found.log.availability.offline_reason is None

    # -------------------------------------------------------------------------------------------- following the image

    def remove_strays(self, image: MetadataImage, restoration_id: str = "") -> None:
        """See `strays`."""
        remove_strays(self._directories, self._node_id, image, self._clock.now_ms(), restoration_id)

    async def prepare(self, old: MetadataImage, new: MetadataImage) -> str | None:
        """Call before `apply`: makes new partitions, a few at a time, so that `apply` takes them over. A thread makes
        the directories. The loop makes the logs, which needs nothing of the disk.

        Returns the disk's error for a new partition, as soon as the disk refuses one. Then `abandon` must follow,
        otherwise `abandon` or `apply`. A partition that was refused before does not stop the change when the disk
        refuses it again.
        """
        settings = self._prepared_settings
        # Runs in a thread: the comparison takes some milliseconds for 10,000 partitions.
        delta = self._prepared_delta = await asyncio.to_thread(ImageDelta.between, old, new)
        again = self._refused_before(delta, new)
        self._tried_again = {TopicPartition(topic.name, state.partition) for topic, state in again}
        created = chain(self._created(delta, new), again)
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
                refused = creation.refused.items()
                reason = next((why for each, why in refused if each not in self._tried_again), None)
            for topic, state in step:
                partition = self._open(topic, state, settings[topic.name], is_fresh=True)
                if partition is not None:
                    self._prepared[partition.topic_partition] = partition
            if reason is not None:
                return reason
        self._prepared_image = new
        return None

    async def abandon(self) -> None:
        """Call after `prepare`, instead of `apply`: the change is not made, and its partitions are removed."""
        logs = [partition.log for partition in self._prepared.values()]
        for topic in self._prepared_settings.keys() - set(self._names.values()):
            self._metrics.remove(topic)
        self._forget_prepared()
        for piece in pieces(logs, _CREATED_PER_STEP) if logs else ():
            await asyncio.to_thread(self._directories.drop(piece).run)

    def _forget_prepared(self) -> None:
        self._prepared = {}
        self._prepared_settings = {}
        self._tried_again = set()
        self._prepared_image = None
        self._prepared_delta = None

    def _created(self, delta: ImageDelta, new: MetadataImage) -> Iterator[tuple[TopicImage, PartitionState]]:
        """Partitions that this broker gets, also those that move here. A partition that is recreated under its old name
        is left to `apply`: its name is in use until then.
        """
        states = ((topic, state) for topic in delta.created for state in topic.partitions)
        moved = () if self._directories.offline else delta.changed  # a log may be in an offline directory
        named = chain(delta.added, (each for each in moved if each not in self.without_log))
        added = ((new.topics[name], new.topics[name].partitions[index]) for name, index in named)
        for topic, state in chain(states, added):
            if self._node_id in state.replicas and (topic.name, state.partition) not in self._directories.logs:
                yield topic, state

    def _refused_before(self, delta: ImageDelta, new: MetadataImage) -> list[tuple[TopicImage, PartitionState]]:
        """Partitions whose log could not be created, of topics that stay and change: they are tried again. An existing
        log that could not be opened is left to `apply`, because `abandon` removes prepared partitions.
        """
        missing = self.without_log.difference(self._directories.logs)
        if not missing or self._directories.offline:  # a log may be in an offline directory
            return []
        refused = {topic for topic, _ in missing} - {topic.name for topic in delta.created}
        changed = [name for name, _ in chain(delta.changed, delta.added)] + [topic.name for topic in delta.configured]
        return [
            (new.topics[name], state)
            for name in (new.topics if delta.broker_configs_changed else dict.fromkeys(changed))
            if name in refused
            for state in new.topics[name].partitions
            if (name, state.partition) in missing and self._node_id in state.replicas
            if not (self.has_lost_directory and is_counted_on(self._node_id, state))
        ]

    async def settle(self) -> None:
        """Call after `apply`: logs get their new settings, the logs of deleted partitions are closed, both a few at a
        time, and a thread renames the directories. Until then the names of deleted partitions are in use.
        """
        for number, _ in enumerate(chain(self._configuring, self._retiring), start=1):
            if number % _CHANGED_PER_STEP == 0:
                await asyncio.sleep(0)
        while renames := self._directories.prepare_renames(_RENAMED_PER_STEP):
            await asyncio.to_thread(renames.run)
            self._directories.settle_renames(renames)

    def apply(self, old: MetadataImage, new: MetadataImage) -> ImageDelta:
        """Creates, changes and deletes partitions so that they match `new`. A partition whose disk fails is left
        offline. Costs 0.2 us for each partition that `prepare` has made or that is deleted. `settle` must follow.
        """
        delta = self._prepared_delta or ImageDelta.between(old, new)
        self.image = new
        self._directories.metadata_number = new.number
        self.context.brokers = new.brokers
        is_start, self._is_started = not self._is_started, True
        self._retiring = chain(self._retiring, self._retire([self._remove_topic(topic) for topic in delta.deleted]))
        # The logs of a recreated topic have the names of the removed logs.
        is_any_made_anew = any(topic.name in new.topics for topic in delta.deleted)
        _advance(self._retiring, None if is_any_made_anew else _CHANGED_PER_STEP)
        configured = new.topics if delta.broker_configs_changed else {topic.name: topic for topic in delta.configured}
        is_prepared = self._prepared_image is new
        if is_prepared:
            self._take_over(delta.created)
        # A change of one partition must not cost a look at all partitions of its topic.
        changed, refused = _indexes_by_topic(delta.changed), {topic for topic, _ in self.without_log}
        whole = _whole_topics(delta, configured, refused, is_prepared=is_prepared)
        for name in dict.fromkeys([*changed, *whole]):
            topic = new.topics[name]
            # At the start, partitions that never had a log look the same as partitions in a failed directory.
            first_fresh = len(topic.partitions) if is_start else _partition_count(old, topic)
            settings = self._prepared_settings.get(name) or self._settings_for(topic)
            self._settings[name] = settings
            states = topic.partitions if name in whole else [topic.partitions[index] for index in changed[name]]
            self._update_topic(topic, states, settings, first_fresh)
        self._configuring = chain(self._configuring, self._configure(list(configured.values())))
        _advance(self._configuring, None if is_start else _CHANGED_PER_STEP)
        self._forget_prepared()
        return delta

    def _take_over(self, created: Iterable[TopicImage]) -> None:
        """In bulk: 10,000 partitions take 1 ms."""
        for topic in created:
            self._names[topic.topic_id] = topic.name
        self._settings.update(self._prepared_settings)
        self._partitions.update(self._prepared)
        if self.without_log:
            self.without_log.difference_update(self._prepared)

    def _remove_topic(self, topic: TopicImage) -> tuple[str, list[Partition | None]]:
        """The topic's partitions are not found any more: 10,000 partitions take 3 ms."""
        name, pop = topic.name, self._partitions.pop
        self._names.pop(topic.topic_id, None)
        if self.without_log:
            self.without_log.difference_update((name, index) for index in range(len(topic.partitions)))
        return name, [pop((name, index), None) for index in range(len(topic.partitions))]

    def _retire(self, removed: Iterable[tuple[str, list[Partition | None]]]) -> Iterator[None]:
        for name, partitions in removed:
            self._metrics.remove(name)
            self._settings.pop(name, None)
            now_ms = self._clock.now_ms()
            yield
            for partition in filter(None, partitions):
                retire(self._directories, partition, now_ms)
                yield

    def _configure(self, topics: Iterable[TopicImage]) -> Iterator[None]:
        for topic in topics:
            try:
                settings = self._settings[topic.name] = self._settings_for(topic)
            except Exception:  # the other listeners must be told nevertheless
                logger.exception("reading the settings of %s failed", topic.name)
                continue
            yield
            for index in range(len(topic.partitions)):
                partition = self._partitions.get((topic.name, index))
                if partition is not None and partition.log.settings is not settings:
                    partition.log.update_settings(settings)
                    if partition.leading is not None:  # min.insync.replicas may have changed
                        partition.leading.raise_high_watermark(self._clock.monotonic_ms())
                yield

    def _update_topic(
        self, topic: TopicImage, states: Iterable[PartitionState], settings: LogSettings, first_fresh: int
    ) -> None:
        """Partitions from the index `first_fresh` on never had a log."""
        self._names[topic.topic_id] = topic.name
        for state in states:
            topic_partition = TopicPartition(topic.name, state.partition)
            partition = self._partitions.get(topic_partition)
            if self._node_id not in state.replicas:
                if partition is not None:  # moved to other brokers
                    partition.adopt(state)
                    del self._partitions[topic_partition]
                    retire(self._directories, partition, self._clock.now_ms())
                continue
            if partition is None:
                if topic_partition in self._tried_again:
                    continue  # in vain, in a thread
                partition = self._open(topic, state, settings, is_fresh=state.partition >= first_fresh)
                if partition is None:
                    self.without_log.add(topic_partition)
                    continue
                self.without_log.discard(topic_partition)
                self._partitions[topic_partition] = partition
            partition.adopt(state)
            if partition.log.settings is not settings:
                partition.log.update_settings(settings)

    def _settings_for(self, topic: TopicImage) -> LogSettings:
        """The same object as long as the settings are equal: then the logs need no update."""
        settings = self._read_settings(topic)
        if settings.validates_schemas:
            self.validates_schemas = True
        known = self._settings.get(topic.name)
        return known if known == settings else settings

    def _open(
        self, topic: TopicImage, state: PartitionState, settings: LogSettings, *, is_fresh: bool
    ) -> Partition | None:
        """None when the disk refuses it."""
        topic_partition = TopicPartition(topic.name, state.partition)
        is_lost = self.has_lost_directory and not is_fresh and topic_partition not in self._directories.logs
        if is_lost and is_counted_on(self._node_id, state):
            return None
        log = open_log(self._directories, topic_partition, topic.topic_id, settings, is_fresh=is_fresh)
        if log is None:
            return None
        return Partition(log, topic.topic_id, state, self._metrics.get(topic.name), self.context)


def _advance(steps: Iterator[None], count: int | None) -> None:
    """Runs at most `count` steps, or all."""
    for _ in islice(steps, count):
        pass


def _whole_topics(
    delta: ImageDelta, configured: Mapping[str, TopicImage], refused: Collection[str], *, is_prepared: bool
) -> Collection[str]:
    """Topics whose partitions are all checked: new or grown topics, and changed topics with a log that was refused
    before, because that log is tried again. The order does not depend on hashes.
    """
    grown = [topic.name for topic in delta.created] + [topic_partition.topic for topic_partition in delta.added]
    if is_prepared:
        # The rest: topics recreated under their old names, and partitions that were refused, now or before.
        left = {topic.name for topic in delta.deleted}.union(refused)
        grown = [name for name in grown if name in left]
    touched = [*(topic_partition.topic for topic_partition in delta.changed), *configured] if refused else []
    return dict.fromkeys([*(name for name in touched if name in refused), *grown])


def _indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for name, index in partitions:
        indexes.setdefault(name, []).append(index)
    return indexes


def _partition_count(image: MetadataImage, topic: TopicImage) -> int:
    """The number of partitions of the same topic in another image."""
    known = image.topics.get(topic.name)
    return len(known.partitions) if known is not None and known.topic_id == topic.topic_id else 0
