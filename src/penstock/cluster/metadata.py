"""The cluster's metadata as the rest of the broker sees it: an image, changes of the image, and subscriptions to
changes.

A change is decided on the current image, prepared by the broker (which makes the files of new partitions), written to
the store with its delta, and only then becomes the image that the broker serves. So every client's answer is durable,
and a crash leaves either all of a change or nothing. A change that cannot be prepared or written leaves nothing, and
its request fails as a whole. Only the controller changes anything. Other brokers refuse with NOT_CONTROLLER and follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import SystemRandom
from typing import NamedTuple, TypeVar

from penstock.cluster.controller.active_controller import ActiveController, Decide
from penstock.cluster.controller.member import ClusterMember, Rules
from penstock.cluster.controller.registration import ensure_cluster
from penstock.cluster.controller.upkeep import INSPECTION_S
from penstock.cluster.controller_api import ControllerApi
from penstock.cluster.decisions.configs import decide_alter_configs, decide_incremental_alter_configs
from penstock.cluster.decisions.decision import (
    AlterConfigsResult,
    CreatePartitionsResult,
    CreateTopicResult,
    Decision,
    DeleteTopicResult,
    FullChange,
    IncrementalChange,
    NewPartitions,
    NewTopic,
    TopicSelector,
)
from penstock.cluster.decisions.elections import decide_offline
from penstock.cluster.decisions.features import FeatureUpdate, Knowledge, decide_update_features
from penstock.cluster.decisions.topics import (
    Charge,
    Choices,
    charge_nothing,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from penstock.cluster.image import BrokerRegistration, MetadataImage, TopicImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.image_publisher import ImageSubscription, Listener, Preparation, Publisher, effective_config
from penstock.cluster.levels import SUPPORTED, LevelRange
from penstock.cluster.patience import load_patiently
from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.security_changes import SecurityChanges
from penstock.cluster.snapshots.restoration import check_usable, mark_set_back
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import SessionState, Store, StoreError, StoreErrorKind
from penstock.cluster.store.znodes import NO_PRODUCER_IDS, ProducerIdBlock
from penstock.cluster.store_errors import as_api_errors
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig, log_settings
from penstock.core.listeners import Endpoint
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.cluster_counters import ControllerMetrics
from penstock.core.types import TopicPartition, format_topic_id, new_topic_id
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
# The time for changes in progress before the broker stops being the controller.
_PATIENCE_S = 10.0


class Disks(NamedTuple):
    """The ids of a broker's data directories, and whether they had no log at its start."""

    ids: tuple[str, ...]
    are_empty: bool
    # The log position that the broker last noted, since the last restore.
    metadata_number: int = 0


NO_DISKS = Disks((), are_empty=False)


class Metadata:
    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        choices: Choices,
        levels: LevelRange = SUPPORTED,
        metrics: ControllerMetrics | None = None,
        restoration_id: str = "",
    ) -> None:
        """Use `open`, or `load` and `join`."""
        self.levels = levels
        self._metrics = metrics or ControllerMetrics()
        self.restoration_id = restoration_id  # of the restore that made the metadata; empty without a restore
        self._store = store
        self.publisher = publisher
        self._choices = choices
        self._member: ClusterMember | None = None
        self.controller_api = ControllerApi(
            store,
            publisher,
            self._change,
            lambda topic: may_be_unclean(self.config, topic),
            lambda topic: self.topic_settings(topic).min_insync_replicas,
        )
        self.security = SecurityChanges(self._change)
        self._running: set[asyncio.Future[None]] = set()
        self._clock: Clock | None = None  # set by `join`
        self._newest_block = NO_PRODUCER_IDS  # claimed by this broker

    @classmethod
    async def open(
        cls,
        store: Store,
        config: BrokerConfig,
        endpoints: tuple[Endpoint, ...],
        clock: Clock,
        *,
        previous_epoch: int | None = None,
        cluster_id: str | None = None,
        choices: Choices | None = None,
    ) -> Metadata:
        """Loads and joins."""
        metadata = await cls.load(store, config, cluster_id=cluster_id, choices=choices)
        await metadata.join(endpoints, clock, previous_epoch=previous_epoch)
        return metadata

    @classmethod
    async def load(
        cls,
        store: Store,
        config: BrokerConfig,
        *,
        cluster_id: str | None = None,
        choices: Choices | None = None,
        levels: LevelRange = SUPPORTED,
        metrics: ControllerMetrics | None = None,
        owner: str | None = None,
    ) -> Metadata:
        """Reads the metadata from the store. Creates a new cluster if there is none, with `cluster_id` if one is given.
        Raises StoreError, also where the level of the metadata is none of `levels`, and where there is no cluster and
        the broker's data belong to the cluster `owner`.
        """
        choices = choices or Choices(SystemRandom(), new_topic_id)
        # Kafka's cluster ids look like its topic ids: 22 characters of base64url that do not begin with a dash.
        new_id = cluster_id or format_topic_id(choices.new_topic_id())

        async def load() -> tuple[MetadataImage, str]:
            restoration_id = await check_usable(store)
            await ensure_cluster(store, config.identity, new_id, levels.highest, owner)
            image = await load_image(store, levels.highest)
            if await check_usable(store) != restoration_id:  # half of it may be from before
                detail = "the cluster was restored from a snapshot while this broker loaded"
                raise StoreError(StoreErrorKind.UNAVAILABLE, znodes.RESTORATION, detail)
            _check_level(image.metadata_level, levels)
            image = await _adopted(store, image, config.identity.node_id) if image.number == 0 else image
            return image, restoration_id

        image, restoration_id = await load_patiently(load, store, config.zookeeper.connection_patience_ms / 1000)
        return cls(store, Publisher(config, image), choices, levels, metrics, restoration_id)

    async def join(
        self,
        endpoints: tuple[Endpoint, ...],
        clock: Clock,
        *,
        previous_epoch: int | None = None,
        takeover_s: float = 0.0,
        disks: Disks = NO_DISKS,
        inspection_s: float = INSPECTION_S,
    ) -> None:
        """Registers the broker, and makes it the controller if there is none. Returns when the image has the broker.

        `endpoints` are the addresses for clients. `previous_epoch` is the broker's epoch in the mark of a clean
        shutdown: None where the logs were not closed properly, -1 where an earlier version wrote the mark.
        `takeover_s`: see `ClusterMember.join`. `inspection_s` is the time between two checks of a controller on its
        log. Raises StoreError.
        """
        identity, image = self.config.identity, self.image
        if image.number < disks.metadata_number:
            logger.error(
                "the metadata stands at %d, and this broker has seen %d: the store was set back. Logs of topics that "
                "it does not know are set aside, here and at every other broker that starts",
                image.number,
                disks.metadata_number,
            )
            self.restoration_id = await mark_set_back(self._store, format_topic_id(self._choices.new_topic_id()))
        epoch = -1 if previous_epoch is None else previous_epoch
        if previous_epoch == -1 and image.number == 0 and identity.node_id in image.brokers:
            epoch = image.brokers[identity.node_id].epoch
        broker = BrokerRegistration(
            identity.node_id,
            endpoints,
            identity.broker_rack,
            previous_epoch=epoch,
            levels=self.levels,
            directories=disks.ids,
            is_empty=disks.are_empty,
        )
        rules = Rules(
            lambda topic: may_be_unclean(self.config, topic),
            lambda: format_topic_id(self._choices.new_topic_id()),
            self.controller_api.losses,
            self._metrics,
            self.levels,
            self.restoration_id,
            inspection_s,
        )
        self._clock = clock
        self._member = ClusterMember(self._store, self.publisher, broker, clock, rules)
        try:
            await self._member.join(takeover_s)
        except BaseException:
            await self._member.close()
            raise

    @property
    def image(self) -> MetadataImage:
        return self.publisher.image

    @property
    def config(self) -> BrokerConfig:
        """The configuration in effect: the broker's own with the dynamic layers of the image."""
        return self.publisher.config

    @property
    def is_controller(self) -> bool:
        return self._active_controller() is not None

    @property
    def controller_id(self) -> int:
        return self.image.controller_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's present registration; -1 while there is none."""
        return -1 if self._member is None else self._member.broker_epoch

    def is_session_sure(self) -> bool:
        """Whether the store cannot have given up this broker's session, by the broker's own clock."""
        counted = self.image.brokers.get(self.config.identity.node_id)
        if counted is None or counted.epoch != self.broker_epoch:
            return False  # a new session has begun, and the image is from before: others may lead by now
        silence_s = asyncio.get_running_loop().time() - self._store.last_contact
        return self._store.session_state is not SessionState.ENDED and silence_s < self._store.session_timeout_s

    def subscribe(
        self,
        listener: Listener,
        prepare: Preparation | None = None,
        settle: Callable[[], Awaitable[None]] | None = None,
        abandon: Callable[[], Awaitable[None]] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener(old, new)` after every change, in the event loop, before the change's request is answered.

        `image` and `config` are the new values by then. `prepare(old, new)` runs before the change is written, and
        `settle()` after its publication; both may take their time, and the next change waits for them. `prepare`
        returns a reason if the change cannot be made. `abandon()` undoes the preparations of a change that was not
        made. Failures of one subscription are logged, and the others are called. Returns a function that ends the
        subscription.
        """
        return self.publisher.subscribe(ImageSubscription(listener, prepare, settle, abandon))

    def find_leader(self, partition: TopicPartition) -> int | None:
        """NO_LEADER where the partition has none, None where there is no such partition."""
        state = self.image.partition(*partition)
        return None if state is None else state.leader

    def log_settings(self, topic: str) -> LogSettings:
        """The settings for the logs of a topic; the broker's defaults for a missing topic."""
        image = self.image.topics.get(topic)
        return log_settings(self.config.stored_topic_config(image.configs if image else {}))

    def topic_settings(self, topic: TopicImage) -> LogSettings:
        """The same for a topic of any image, also of an image that has not taken effect yet."""
        return log_settings(self.config.stored_topic_config(topic.configs))

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge = charge_nothing
    ) -> tuple[CreateTopicResult, ...]:
        return await self._change(
            lambda image: decide_create_topics(
                image, self.config, topics, self._choices, validate_only=validate_only, charge=charge
            )
        )

    async def delete_topics(
        self, selectors: Sequence[TopicSelector], charge: Charge = charge_nothing
    ) -> tuple[DeleteTopicResult, ...]:
        return await self._change(lambda image: decide_delete_topics(image, self.config.topics, selectors, charge))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, charge: Charge = charge_nothing
    ) -> tuple[CreatePartitionsResult, ...]:
        return await self._change(
            lambda image: decide_create_partitions(
                image, topics, self._choices, validate_only=validate_only, charge=charge
            )
        )

    async def alter_configs(
        self, resources: Sequence[FullChange], *, validate_only: bool = False
    ) -> tuple[AlterConfigsResult, ...]:
        return await self._change(
            lambda image: _elected(
                self.config, image, decide_alter_configs(image, self.config, resources, validate_only=validate_only)
            )
        )

    async def incremental_alter_configs(
        self, resources: Sequence[IncrementalChange], *, validate_only: bool = False
    ) -> tuple[AlterConfigsResult, ...]:
        return await self._change(
            lambda image: _elected(
                self.config,
                image,
                decide_incremental_alter_configs(image, self.config, resources, validate_only=validate_only),
            )
        )

    async def update_features(
        self, updates: Sequence[FeatureUpdate], fixed: Mapping[str, int], *, validate_only: bool = False
    ) -> None:
        """`fixed` are the levels of features that never change. Raises ApiError."""
        controller = Knowledge(self.config.identity.node_id, self.levels, fixed)
        await self._change(
            lambda image: decide_update_features(image, controller, updates, validate_only=validate_only)
        )

    async def allocate_producer_id_block(self) -> ProducerIdBlock:
        """A block of producer ids that no other broker ever got or will get. Durable when this returns."""
        assert self._clock is not None, "a broker that has joined"
        node_id, now_ms = self.config.identity.node_id, self._clock.now_ms()
        self._newest_block = await as_api_errors(
            allocate_producer_id_block(self._store, node_id, now_ms, self._newest_block)
        )
        return self._newest_block

    async def leave(self) -> None:
        """Takes this broker out of its cluster before its port closes: another controller is elected at once, and no
        broker takes this broker for dead. From here on it refuses changes and does not follow images any more.
        """
        if self._member is None:
            return
        await self._member.close()
        try:
            await self.controller_api.remove(self.config.identity.node_id, self.broker_epoch)
        except StoreError as error:
            logger.warning("the broker leaves without a word, its session ends later: %s", error)

    async def close(self) -> None:
        """Waits for changes in progress. The opener of the store closes the store afterwards."""
        await self.controller_api.close()
        if self._running:
            await asyncio.wait(self._running, timeout=_PATIENCE_S)
        if self._member is not None:
            await self._member.close()  # a wait for a store that does not answer ends
        while self._running:
            await asyncio.wait(self._running)

    def _active_controller(self) -> ActiveController | None:
        return None if self._member is None else self._member.active_controller

    async def _change(self, decide: Decide[Item]) -> tuple[Item, ...]:
        """Decides, writes and publishes, one at a time.

        A client that goes away must not stop a change between its write and its publication, so the work is a task of
        its own that a cancellation of the caller does not reach.
        """
        active_controller = self._active_controller()
        if active_controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        work = asyncio.ensure_future(active_controller.change(decide))
        done: asyncio.Future[None] = asyncio.ensure_future(_settled(work))
        self._running.add(done)
        done.add_done_callback(self._running.discard)
        return await as_api_errors(asyncio.shield(work))


def may_be_unclean(config: BrokerConfig, topic: TopicImage) -> bool:
    """Whether a replica that is not in sync may lead where no other can."""
    return bool(config.stored_topic_config(topic.configs)["unclean.leader.election.enable"])


def _elected(config: BrokerConfig, before: MetadataImage, decision: Decision[Item]) -> Decision[Item]:
    """Where new settings allow unclean elections, partitions without a leader get one at once, as in Kafka."""
    if decision.image is before:
        return decision
    config = effective_config(config, decision.image)
    after = decide_offline(decision.image, lambda topic: may_be_unclean(config, topic)).image
    return Decision(decision.results, after)


def _check_level(level: int, levels: LevelRange) -> None:
    """Checks a level that is too high for this version, or so low that this version does not know it any more."""
    if levels.has(level):
        return
    what_to_do = (
        "update this broker to the version that the others run"
        if level > levels.highest
        else "go on with the version before, and raise the level with `penstock cluster upgrade` first"
    )
    detail = (
        f"the cluster's metadata has level {level}, and this version of Penstock knows {levels.lowest} to "
        f"{levels.highest}: {what_to_do}"
    )
    raise StoreError(StoreErrorKind.CORRUPT, znodes.FEATURES, detail)


async def _adopted(store: Store, image: MetadataImage, node_id: int) -> MetadataImage:
    """The image of a store without a log: a standalone broker of an earlier version wrote it. The broker's last epoch
    was the newest of the counter.
    """
    sequence = await store.read(znodes.BROKER_SEQUENCE)
    if sequence is None or not image.topics:
        return image
    return replace(image, brokers={node_id: BrokerRegistration(node_id, (), epoch=sequence.version)})


async def answer_each(
    change: Awaitable[tuple[Item, ...]], refuse: Callable[[ErrorCode, str | None], Iterable[Item]]
) -> tuple[Item, ...]:
    """The results of a change. If the change as a whole failed, each of its items gets the error, as in Kafka: the
    responses have no error code of their own.
    """
    try:
        return await change
    except ApiError as error:
        return tuple(refuse(error.code, error.message))


async def _settled(work: asyncio.Future[tuple[Item, ...]]) -> None:
    """Ends when the work does, whatever its outcome; the caller of the change gets the outcome."""
    await asyncio.wait([work])
    if not work.cancelled():
        work.exception()
