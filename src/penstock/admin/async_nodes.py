"""Single brokers: for those who start and stop them, and wait until they agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.admin.look import Look
from penstock.admin.queries.views import Views, read_views
from penstock.admin.state.parts import Partial
from penstock.client.addresses import Address
from penstock.client.brokers import Brokers
from penstock.protocol.message import Message


class AsyncNodes:
    """Raises what `AsyncAdmin` raises. Nobody needs to know of these brokers yet."""

    def __init__(self, brokers: Brokers, timeout_s: float) -> None:
        self._brokers = brokers
        self._timeout_s = timeout_s

    async def views(self, addresses: Iterable[Address]) -> Partial[Views]:
        """Topics, brokers, leaders and the controller, as the broker at each address tells them, and moves where
        replicas lag. A broker that does not answer is among the failures.
        """
        return await read_views(Look(self._brokers, self._timeout_s), addresses)

    async def ask(self, address: Address, message: Message, *, timeout_s: float | None = None) -> Any:
        """A request that has no operation here. It is sent again only where the connection turns out to be dead, so it
        has to be idempotent.
        """
        return await Look(self._brokers, self._timeout_s if timeout_s is None else timeout_s).ask(address, message)
