"""The cluster's metadata at one broker: loaded, changed one request at a time, and told to those who listen.

A change is decided on the current image, prepared by the broker (which makes the files of new partitions), written to
the store in one transaction, and only then becomes the image that the broker serves. So what a client was told is
durable, and a crash leaves either all of a change or nothing. A change that cannot be prepared or written leaves
nothing, and its request fails as a whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import SystemRandom
from typing import NamedTuple, TypeVar

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
from penstock.cluster.decisions.topics import (
    Choices,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
    decide_start,
)
from penstock.cluster.image import MetadataImage, TopicImage
from penstock.cluster.loading import load_image
from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.registration import Registration, register
from penstock.cluster.store.interface import Operation, Store, StoreError, StoreErrorKind
from penstock.cluster.store.znodes import ProducerIdBlock
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig, log_settings
from penstock.core.config.types import ConfigError
from penstock.core.listeners import Endpoint
from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition, format_topic_id, new_topic_id
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Value = TypeVar("Value")
Listener = Callable[[MetadataImage, MetadataImage], None]
Preparation = Callable[[MetadataImage, MetadataImage], Awaitable[str | None]]


class Subscription(NamedTuple):
    listener: Listener
    prepare: Preparation | None
    settle: Callable[[], Awaitable[None]] | None
    abandon: Callable[[], Awaitable[None]] | None


# What a client is told when the store refuses a change; anything else is a fault on our side.
_STORE_CODES = {
    StoreErrorKind.BAD_VERSION: ErrorCode.NOT_CONTROLLER,
    StoreErrorKind.TOO_LARGE: ErrorCode.POLICY_VIOLATION,
    StoreErrorKind.CLOSED: ErrorCode.BROKER_NOT_AVAILABLE,
    StoreErrorKind.UNAVAILABLE: ErrorCode.KAFKA_STORAGE_ERROR,
}


class Metadata:
    def __init__(
        self, store: Store, config: BrokerConfig, registration: Registration, image: MetadataImage, choices: Choices
    ) -> None:
        """Use `open`."""
        self.image = image
        # The configuration in effect: the broker's own with the dynamic layers of the image.
        self.config = effective_config(config, image)
        self._store = store
        self._registration = registration
        self._choices = choices
        self._subscriptions: list[Subscription] = []
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Future[None]] = set()

    @classmethod
    async def open(
        cls,
        store: Store,
        config: BrokerConfig,
        endpoints: tuple[Endpoint, ...],
        clock: Clock,
        *,
        was_clean_shutdown: bool = False,
        cluster_id: str | None = None,
        choices: Choices | None = None,
    ) -> Metadata:
        """Registers the broker, makes it the controller if there is none, and loads the image.

        `endpoints` are what clients are told. `was_clean_shutdown` says that the logs were closed properly the last
        time; see `decide_start`. `cluster_id` is for a new cluster alone. Raises StoreError.
        """
        choices = choices or Choices(SystemRandom(), new_topic_id)
        # Kafka's cluster ids look like its topic ids: 22 characters of base64url that do not begin with a dash.
        new_cluster_id = cluster_id or format_topic_id(choices.new_topic_id())
        registration = await register(store, config.identity, endpoints, clock.now_ms(), new_cluster_id)
        image = await load_image(store)
        decision = decide_start(image, config.identity.node_id, was_clean_shutdown=was_clean_shutdown)
        if decision.operations and registration.is_controller:
            await store.transaction([registration.fence, *decision.operations])
            image = decision.image
        return cls(store, config, registration, image, choices)

    @property
    def is_controller(self) -> bool:
        return self._registration.is_controller

    def subscribe(
        self,
        listener: Listener,
        prepare: Preparation | None = None,
        settle: Callable[[], Awaitable[None]] | None = None,
        abandon: Callable[[], Awaitable[None]] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener(old, new)` after every change, in the event loop, before the change's request is answered.

        `image` and `config` are the new ones by then. `prepare(old, new)` runs before the change is written, and
        `settle()` after it was published; both may take their time, and the next change waits for them. `prepare`
        returns a reason if the change cannot be made. `abandon()` undoes what was prepared for a change that was not
        made. What one subscription fails to do is logged, and the others are told. Returns what ends the subscription.
        """
        subscription = Subscription(listener, prepare, settle, abandon)
        self._subscriptions.append(subscription)
        return lambda: self._subscriptions.remove(subscription)

    def find_leader(self, partition: TopicPartition) -> int | None:
        """NO_LEADER where the partition has none, None where there is no such partition."""
        state = self.image.partition(*partition)
        return None if state is None else state.leader

    def log_settings(self, topic: str) -> LogSettings:
        """What the logs of a topic are to be opened with; the broker's defaults for a topic that is not there."""
        image = self.image.topics.get(topic)
        return log_settings(self.config.stored_topic_config(image.configs if image else {}))

    def topic_settings(self, topic: TopicImage) -> LogSettings:
        """The same for a topic of any image, also of one that has not taken effect yet."""
        return log_settings(self.config.stored_topic_config(topic.configs))

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> tuple[CreateTopicResult, ...]:
        return await self._change(
            lambda: decide_create_topics(self.image, self.config, topics, self._choices, validate_only=validate_only)
        )

    async def delete_topics(self, selectors: Sequence[TopicSelector]) -> tuple[DeleteTopicResult, ...]:
        return await self._change(lambda: decide_delete_topics(self.image, self.config.topics, selectors))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> tuple[CreatePartitionsResult, ...]:
        return await self._change(
            lambda: decide_create_partitions(self.image, topics, self._choices, validate_only=validate_only)
        )

    async def alter_configs(
        self, resources: Sequence[FullChange], *, validate_only: bool = False
    ) -> tuple[AlterConfigsResult, ...]:
        return await self._change(
            lambda: decide_alter_configs(self.image, self.config, resources, validate_only=validate_only)
        )

    async def incremental_alter_configs(
        self, resources: Sequence[IncrementalChange], *, validate_only: bool = False
    ) -> tuple[AlterConfigsResult, ...]:
        return await self._change(
            lambda: decide_incremental_alter_configs(self.image, self.config, resources, validate_only=validate_only)
        )

    async def allocate_producer_id_block(self) -> ProducerIdBlock:
        """A block of producer ids that nobody ever got or will get. Durable when this returns."""
        return await _answered(allocate_producer_id_block(self._store, self.config.identity.node_id))

    async def close(self) -> None:
        """Waits for changes under way. The opener of the store closes the store afterwards."""
        while self._running:
            await asyncio.wait(self._running)

    async def _change(self, decide: Callable[[], Decision[Item]]) -> tuple[Item, ...]:
        """Decides, writes and publishes, one at a time.

        A client that goes away must not stop a change between its write and its publication, so the work is a task of
        its own that a cancellation of the caller does not reach.
        """
        work = asyncio.ensure_future(self._change_in_turn(decide))
        done: asyncio.Future[None] = asyncio.ensure_future(_settled(work))
        self._running.add(done)
        done.add_done_callback(self._running.discard)
        return await _answered(asyncio.shield(work))

    async def _change_in_turn(self, decide: Callable[[], Decision[Item]]) -> tuple[Item, ...]:
        async with self._turn:
            if not self.is_controller:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            # In a thread: a request may name 10,000 partitions, and a decision takes some 10 us for each.
            decision = await asyncio.to_thread(decide)
            if decision.operations:
                subscriptions = list(self._subscriptions)
                try:
                    await self._prepare(subscriptions, decision.image)
                    operations: list[Operation] = [self._registration.fence, *decision.operations]
                    await self._store.transaction(operations)
                except Exception:
                    await _tell_each("abandoning a change", [subscription.abandon for subscription in subscriptions])
                    raise
                # Each step may have used its turn of the loop up: the image takes effect in a turn of its own.
                await asyncio.sleep(0)
                self._publish(decision.image)
                await asyncio.sleep(0)
                await _tell_each("settling a change", [subscription.settle for subscription in subscriptions])
            return decision.results

    async def _prepare(self, subscriptions: Iterable[Subscription], image: MetadataImage) -> None:
        for subscription in subscriptions:
            reason = None if subscription.prepare is None else await subscription.prepare(self.image, image)
            if reason is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def _publish(self, image: MetadataImage) -> None:
        old, self.image = self.image, image
        if old.broker_configs != image.broker_configs or old.default_broker_config != image.default_broker_config:
            self.config = effective_config(self.config, image)
        for subscription in list(self._subscriptions):
            try:
                subscription.listener(old, image)
            except Exception:  # the change is durable: the others must follow it, and the client must not be misled
                logger.exception("following a change of the metadata failed")


def effective_config(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """The configuration with the image's dynamic layers.

    They were checked when they were stored, but the broker's file may have changed since. A setting that no longer fits
    is left out with a warning, because a broker that cannot start cannot be corrected either.
    """
    default = dict(image.default_broker_config)
    own = dict(image.broker_configs.get(config.identity.node_id, {}))
    while True:
        try:
            return config.with_dynamic(default, own)
        except ConfigError as error:
            logger.warning("a dynamic setting in the metadata store is ignored: %s", error.message)
            if error.key in own or error.key in default:
                own.pop(error.key or "", None)
                default.pop(error.key or "", None)
            else:
                default, own = {}, {}


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


async def _tell_each(doing: str, steps: Iterable[Callable[[], Awaitable[None]] | None]) -> None:
    """A step that fails stops no other step. The client is told what was decided, whatever becomes of the steps."""
    for step in steps:
        if step is not None:
            try:
                await step()
            except Exception:
                logger.exception("%s failed", doing)


async def _settled(work: asyncio.Future[tuple[Item, ...]]) -> None:
    """Ends when the work does, whatever came of it; the caller of the change gets to see that."""
    await asyncio.wait([work])
    if not work.cancelled():
        work.exception()


async def _answered(work: Awaitable[Value]) -> Value:
    """Turns an error of the store into one for the client."""
    try:
        return await work
    except StoreError as error:
        logger.error("the metadata store refused a change: %s", error)
        code = _STORE_CODES.get(error.kind, ErrorCode.UNKNOWN_SERVER_ERROR)
        raise ApiError(code, f"the metadata store refused the change: {error.kind.value}") from error
