"""The return to preferred leaders: the controller checks periodically, as Kafka's controller does."""

from __future__ import annotations

import asyncio
import logging

from penstock.cluster.controller.active_controller import ActiveController
from penstock.cluster.decisions.elections import decide_balance
from penstock.cluster.image_publisher import Publisher
from penstock.cluster.store.interface import StoreError
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

# Kafka's delay of the first check after an election, and its default of leader.imbalance.per.broker.percentage, which
# Kafka 4 has no more.
_FIRST_LOOK_S = 5.0
_IMBALANCE_PERCENT = 10


class Balance:
    """Begins with a controller's term, and ends by itself when the term ends."""

    def __init__(
        self, active_controller: ActiveController, publisher: Publisher, first_look_s: float = _FIRST_LOOK_S
    ) -> None:
        self._active_controller = active_controller
        self._publisher = publisher
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(first_look_s, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if not self._active_controller.is_open:
            return
        settings = self._publisher.config.balance
        interval_s = settings.leader_imbalance_check_interval_seconds
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._look)
        is_alone = len(self._publisher.image.brokers) < 2
        if settings.auto_leader_rebalance_enable and not is_alone and self._task is None:
            self._task = asyncio.create_task(self._balance(), name="leader-balance")

    async def _balance(self) -> None:
        try:
            await self._active_controller.change(
                lambda image: decide_balance(image, _IMBALANCE_PERCENT), can_refuse=False
            )
        except (ApiError, StoreError) as error:
            logger.warning("leadership could not be balanced: %s", error)
        finally:
            self._task = None
