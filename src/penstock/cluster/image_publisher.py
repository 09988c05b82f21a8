"""The image that a broker serves, and its replacement by the next image.

The broker prepares a new image (it makes the files of new partitions), the controller writes it to the store, it takes
effect in one turn of the loop, and is settled afterwards. It goes the same way whether this broker made it or read it
in the log. A broker that made the change may refuse it; a broker that reads it follows, as well as it can.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from penstock.cluster.image import MetadataImage
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

Listener = Callable[[MetadataImage, MetadataImage], None]
Preparation = Callable[[MetadataImage, MetadataImage], Awaitable[str | None]]
Step = Callable[[], Awaitable[None]]


class ImageSubscription(NamedTuple):
    listener: Listener
    prepare: Preparation | None
    settle: Step | None
    abandon: Step | None


class Publisher:
    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self.image = image
        # The configuration in effect: the broker's own with the dynamic layers of the image.
        self.config = effective_config(config, image)
        # The replacement of the image holds this, from the decision or the read on.
        self.turn = asyncio.Lock()
        self.is_set_back = False  # the store was, behind the image: only a start shows its content
        self._subscriptions: list[ImageSubscription] = []

    def subscribe(self, subscription: ImageSubscription) -> Callable[[], None]:
        self._subscriptions.append(subscription)
        return lambda: self._subscriptions.remove(subscription)

    async def change(self, image: MetadataImage, write: Step) -> None:
        """Prepares, writes and publishes, with the turn held. A change that cannot be prepared or written leaves
        nothing, and raises.
        """
        subscriptions = list(self._subscriptions)
        try:
            reason = await self._prepare(subscriptions, image)
            if reason is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
            await write()
        except Exception:
            await _tell_each("abandoning a change", [subscription.abandon for subscription in subscriptions])
            raise
        await self._take_effect(image)

    async def follow(self, image: MetadataImage, write: Step | None = None) -> None:
        """The same for a change that this broker cannot refuse: partitions that its disk refuses are offline here."""
        subscriptions = list(self._subscriptions)
        try:
            reason = await self._prepare(subscriptions, image)
        except Exception:
            logger.exception("preparing a change of the metadata failed")
            reason = "a fault"
        if reason is not None:
            logger.error("a change of the metadata cannot be prepared: %s", reason)
            await _tell_each("abandoning a change", [subscription.abandon for subscription in subscriptions])
        if write is not None:
            try:
                await write()
            except Exception:
                if reason is None:
                    await _tell_each("abandoning a change", [subscription.abandon for subscription in subscriptions])
                raise
        await self._take_effect(image)

    async def _prepare(self, subscriptions: Iterable[ImageSubscription], image: MetadataImage) -> str | None:
        for subscription in subscriptions:
            reason = None if subscription.prepare is None else await subscription.prepare(self.image, image)
            if reason is not None:
                return reason
        return None

    async def _take_effect(self, image: MetadataImage) -> None:
        # Each step may have used its turn of the loop up: the image takes effect in a turn of its own.
        await asyncio.sleep(0)
        subscriptions = list(self._subscriptions)  # also a subscription that came after the preparation
        self._publish(image)
        await asyncio.sleep(0)
        await _tell_each("settling a change", [subscription.settle for subscription in subscriptions])

    def _publish(self, image: MetadataImage) -> None:
        old, self.image = self.image, image
        if old.broker_configs != image.broker_configs or old.default_broker_config != image.default_broker_config:
            self.config = effective_config(self.config, image)
        for subscription in list(self._subscriptions):
            try:
                subscription.listener(old, image)
            except Exception:  # the change is durable: the others must follow it, and the client must get a true answer
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


async def _tell_each(doing: str, steps: Iterable[Step | None]) -> None:
    """A failed step stops no other step. The client gets the decision, whatever becomes of the steps."""
    for step in steps:
        if step is not None:
            try:
                await step()
            except Exception:
                logger.exception("%s failed", doing)
