"""Brokers that have just left the cluster: metadata answers name their addresses for some seconds more.

A departed broker leads nothing, so no client has to go there. But a client that learns at once both that a broker is
gone and which broker leads instead may lose the second fact over the first: librdkafka (2.16) drops its state of a
broker that an answer does not name any more, and partitions that were about to move from there to their new leader have
none until it asks again, a second later. The image names a broker that comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from penstock.cluster.image import BrokerRegistration, MetadataImage

# Clients that write, or wait for records, ask within two seconds.
_NAMED_S = 5.0


class Departed:
    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when a broker's address expires."""
        self._changed = changed
        self._brokers: dict[int, tuple[BrokerRegistration, asyncio.TimerHandle]] = {}

    def __iter__(self) -> Iterator[BrokerRegistration]:
        return (broker for broker, _ in self._brokers.values())

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.brokers is new.brokers:
            return
        for node_id in new.brokers:
            self._forget(node_id)
        for node_id, broker in old.brokers.items():
            if node_id not in new.brokers:
                self._forget(node_id)
                end = asyncio.get_running_loop().call_later(_NAMED_S, self._end, node_id)
                self._brokers[node_id] = broker, end

    def close(self) -> None:
        for node_id in list(self._brokers):
            self._forget(node_id)

    def _end(self, node_id: int) -> None:
        self._forget(node_id)
        self._changed()

    def _forget(self, node_id: int) -> None:
        found = self._brokers.pop(node_id, None)
        if found is not None:
            found[1].cancel()
