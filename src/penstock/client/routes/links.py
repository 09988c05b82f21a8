"""Connections to brokers by address: one to each, opened when it is needed, with the versions that the broker serves.

Callers who need the same broker at once share one attempt. An attempt goes on when its caller is cancelled: others may
wait for it, and the next caller will need it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Awaitable, Iterable
from typing import Any

from penstock.client.addresses import Address
from penstock.client.connection.asyncio_connection import Connection, take_steps
from penstock.client.connection.certificate import end_of_certificate
from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.connection.versions import Versions, ask_versions
from penstock.client.routes.socket_options import set_options
from penstock.client.security import ClientSecurity, SecuritySource
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

CONNECT_TIMEOUT_S = 5.0
_SOFTWARE = "penstock"

# The last versions that name topics rather than number them, and the last that tell a broker nothing of transactions
# without AddPartitionsToTxn (KIP-890), whose version 3 is the last for clients.
_NEWEST = {
    ProduceRequest: 12,
    FetchRequest: 12,
    OffsetCommitRequest: 9,
    OffsetFetchRequest: 9,
    TxnOffsetCommitRequest: 4,
    AddPartitionsToTxnRequest: 3,
    EndTxnRequest: 4,
}
_NEWEST_TRANSACTIONAL_PRODUCE = 11


class NotSentError(ConnectionClosedError):
    """The connection had ended before the request was sent."""


class NobodyAnswersError(ConnectionError):
    """None of the brokers that are known can be reached."""


class ClientClosedError(NotSentError):
    """The client itself was closed."""


class Link:
    """An open connection, and what its broker serves."""

    __slots__ = ("_connection", "_versions", "address", "served")

    def __init__(self, address: Address, connection: Connection, served: ApiVersionsResponse) -> None:
        self.address = address
        self._connection = connection
        self.served = served
        self._versions = Versions(served, _NEWEST)

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    @property
    def answers(self) -> int:
        """How many answers have come: who waits in vain sees whether anybody else is served."""
        return self._connection.answers

    @property
    def is_idle(self) -> bool:
        return self._connection.is_idle

    @property
    def certificate_until(self) -> datetime.datetime | None:
        """Until when the broker's certificate is valid; None without TLS, or for one that cannot be read."""
        return end_of_certificate(self._connection.peer_certificate)

    def version_of(self, message: Message) -> int:
        """UnservedApiError where there is none that both sides know."""
        version = self._versions.choose(type(message))
        if isinstance(message, ProduceRequest) and message.transactional_id is not None:
            return min(version, _NEWEST_TRANSACTIONAL_PRODUCE)
        return version

    async def begin(self, message: Message) -> asyncio.Future[Any]:
        """Sends the request, and returns what its answer will be. Requests are sent in the order of the calls."""
        version = self.version_of(message)
        if not self._connection.is_open:
            raise NotSentError("the connection was lost")
        return await self._connection.begin(message, version)

    async def renew_login(self) -> None:
        await self._connection.renew_login()

    def begin_now(self, message: Message) -> asyncio.Future[Any] | None:
        """The same without waiting; None where a login comes first. The caller bounds what it sends."""
        if not self._connection.is_open:
            raise NotSentError("the connection was lost")
        return self._connection.begin_now(message, self.version_of(message))

    async def send(self, message: Message) -> None:
        """A request that is not answered."""
        if not self._connection.is_open:
            raise NotSentError("the connection was lost")
        await self._connection.send(message, self.version_of(message))

    def end(self, reason: str) -> None:
        """For a broker that does not answer."""
        self._connection.end(reason)

    async def close(self) -> None:
        await self._connection.close()


class Links:
    def __init__(self, security: SecuritySource, client_id: str, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._security = security
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._open: dict[Address, Link] = {}
        self._opening: dict[Address, asyncio.Task[Link]] = {}
        self._is_closed = False

    def clone(self) -> Links:
        """Others with the same credentials."""
        return Links(self._security, self._client_id, self._connect_timeout_s)

    def find(self, address: Address) -> Link | None:
        """The link that is open, without waiting."""
        link = self._open.get(address)
        return link if link is not None and link.is_open else None

    async def get(self, address: Address) -> Link:
        """Raises OSError: nobody listens there, or the login is refused (LoginRefusedError)."""
        link = self.find(address)
        if link is not None:
            return link
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        attempt = self._opening.get(address)
        if attempt is None:
            attempt = asyncio.create_task(self._attempt(address), name="connection to a broker")
            self._opening[address] = attempt
            attempt.add_done_callback(_fetch_exception)
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled():
                raise ClientClosedError("the client was closed") from None
            raise

    async def keep_only(self, addresses: set[Address]) -> None:
        """Closes links to brokers that are not in the cluster any more, so that their number is bounded by it."""
        left = [address for address, link in self._open.items() if address not in addresses and link.is_idle]
        await self._close_each(self._open.pop(address) for address in left)

    async def close(self) -> None:
        self._is_closed = True
        attempts = list(self._opening.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        links = list(self._open.values())
        self._open.clear()
        await self._close_each(links)

    async def _close_each(self, links: Iterable[Link]) -> None:
        """Side by side: a broker that hangs behind TLS takes a second for its farewell. All of them end now, also where
        the caller is cancelled before they are closed.
        """
        ending = list(links)
        for link in ending:
            link.end("the connection was closed")
        await asyncio.gather(*(link.close() for link in ending))

    async def _attempt(self, address: Address) -> Link:
        try:
            link = await self._connect(address)
        finally:
            self._opening.pop(address, None)
        lost = self._open.pop(address, None)
        self._open[address] = link
        if lost is not None:
            await lost.close()
        return link

    async def _connect(self, address: Address) -> Link:
        source = self._security
        connection = await Connection.open(
            *address,
            client_id=self._client_id,
            timeout_s=self._connect_timeout_s,
            security=source if isinstance(source, ClientSecurity) else await asyncio.to_thread(source),
            set_options=set_options,
        )

        def ask(message: Message, version: int) -> Awaitable[Any]:
            return connection.request(message, version, timeout_s=self._connect_timeout_s)

        try:
            return Link(address, connection, await take_steps(ask_versions(_SOFTWARE), ask))
        except BaseException:
            await connection.close()
            raise


def _fetch_exception(attempt: asyncio.Task[Link]) -> None:
    """Whoever waited may have been cancelled: a failure that nobody fetches is no mistake."""
    with contextlib.suppress(asyncio.CancelledError):
        attempt.exception()
