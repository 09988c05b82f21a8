"""Controlled shutdown in the controller: brokers that want to stop.

A broker may stop when it leads nothing that another replica could lead, and when every live broker has applied the
image in which that is so. Until then a client may get the old leader in an answer, and would meet a closed port. So the
controller remembers the number of that image, and asks the other brokers for their image: ApiVersions has its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.peers.controller_port import ControllerPort
from penstock.broker.peers.peer import versions_request
from penstock.broker.peers.peers import Peers, PeerUnavailableError
from penstock.cluster.image import MetadataImage

# A broker that does not answer within this time is asked again when the stopping broker asks again.
_ASKING_TIMEOUT_S = 2.0


class Shutdowns:
    def __init__(
        self, node_id: int, controller_api: ControllerPort, peers: Peers, image: Callable[[], MetadataImage]
    ) -> None:
        self._node_id = node_id
        self._controller_api = controller_api
        self._peers = peers
        self._image = image
        # By node id and broker epoch: the number of the image in which all leaderships were moved. At most one for each
        # broker.
        self._moved: dict[tuple[int, int], int] = {}

    async def advance(self, node_id: int, broker_epoch: int, applied: int) -> bool:
        """Whether the broker may stop. `applied` is the number of the broker's own image.

        Raises ApiError: NOT_CONTROLLER, or STALE_BROKER_EPOCH.
        """
        led_count = await self._controller_api.begin_shutdown(node_id, broker_epoch)
        image = self._image()
        self._forget_others(image)
        if led_count:
            return False
        number = self._moved.setdefault((node_id, broker_epoch), image.number)
        others = [each for each in image.brokers if each not in (node_id, self._node_id)]
        have_applied = await asyncio.gather(*(self._has_applied(other, number) for other in others))
        return applied >= number and all(have_applied)

    async def _has_applied(self, node_id: int, number: int) -> bool:
        try:
            answer = await self._peers.ask(node_id, versions_request(), timeout_s=_ASKING_TIMEOUT_S)
        except PeerUnavailableError:
            return node_id not in self._image().brokers  # gone meanwhile: its requests do not count
        return bool(answer.finalized_features_epoch >= number)

    def _forget_others(self, image: MetadataImage) -> None:
        registered = {(each.node_id, each.epoch) for each in image.brokers.values()}
        self._moved = {key: number for key, number in self._moved.items() if key in registered}
