"""The presence of the other brokers: an answer about leaders must know their state beyond the image."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.peers.departed_brokers import Departed
from penstock.broker.peers.peers import Peers
from penstock.broker.peers.pulse import Pulse
from penstock.broker.peers.suspects import Suspects
from penstock.cluster.image import MetadataImage


class Presence:
    def __init__(
        self, node_id: int, peers: Peers, image: Callable[[], MetadataImage], changed: Callable[[], None]
    ) -> None:
        """`changed` is called when earlier answers are not true any more."""
        self.suspects = Suspects(peers, image, changed)
        self.departed = Departed(changed)
        self._pulse = Pulse(peers.ask, lambda: _others(image(), node_id), self.suspects)

    @property
    def is_known(self) -> bool:
        """Whether an answer can go out at once; otherwise call `settle` first."""
        return self._pulse.is_known and not self.suspects.is_worth_waiting

    async def settle(self) -> None:
        """Returns when every other broker has shown that it lives, or is gone, or the time for that wait is over."""
        await self._pulse.take()
        while self.suspects.is_worth_waiting:  # another broker may come under suspicion meanwhile
            await self.suspects.settle()
            await self._pulse.take()  # a sign of life ends a suspicion

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        self.suspects.follow(old, new)
        self.departed.follow(old, new)

    async def close(self) -> None:
        self.suspects.close()
        self.departed.close()
        await self._pulse.close()


def _others(image: MetadataImage, node_id: int) -> list[int]:
    """The brokers that may lead. A stopping broker has handed its leaderships over."""
    return [each.node_id for each in image.brokers.values() if each.node_id != node_id and not each.is_stopping]
