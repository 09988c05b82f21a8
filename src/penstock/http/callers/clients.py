"""Clients of the brokers, one for each caller of an HTTP service: the brokers see the real caller.

    clients = CallerClients(lambda security: Brokers(bootstrap, security), own, is_shared=authenticator is None)
    brokers = await clients.of(request)           # until the request is over
    held = await clients.hold(request.state.caller)   # until held.release()

Rules:
- A client belongs to one principal and one set of credentials. No caller uses another's client.
- A caller without a login gets no client, unless the service is open to everybody: strangers never get the service's
  own rights.
- Clients are bounded in number, in all and for each principal. An unused client makes room for another. A client in use
  is never closed: where all are in use, the next caller is refused.
- A client that was idle for a while is closed, and its delegation token, if it has one, is ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from penstock.client.security import ClientSecurity
from penstock.http.authentication import Caller

if TYPE_CHECKING:
    from starlette.requests import Request

    from penstock.http.callers.delegation import Delegated, Delegates

logger = logging.getLogger(__name__)


class Closing(Protocol):
    async def close(self) -> None: ...


Client = TypeVar("Client", bound=Closing)

# The key of the client that all callers share.
_SHARED = ("", b"")
# A client whose close does not end is left to the garbage collector.
_CLOSE_S = 10.0


class ClientLimits(NamedTuple):
    # Each client has a connection or two to each broker.
    most: int = 200
    # A principal with many tokens must not take all of them.
    most_per_principal: int = 20
    # A new client costs a login; a caller that comes each minute does not pay it.
    idle_s: float = 120.0


class TooManyClientsError(Exception):
    """All clients are in use. The answer is 503: the caller may try again."""


class NoBrokerLoginError(Exception):
    """The service has no credentials for the brokers for this caller. The answer is 403."""


class _Entry(Generic[Client]):
    def __init__(self, key: tuple[str, bytes]) -> None:
        self.key = key
        self.users = 0
        self.idle_since = 0.0
        self.opening = asyncio.Lock()
        self.client: Client | None = None
        self.delegated: Delegated | None = None


class Held(Generic[Client]):
    """A client that stays open until `release`, which may be called twice."""

    def __init__(self, client: Client, release: Callable[[], None]) -> None:
        self.client = client
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


class CallerClients(Generic[Client]):
    """`open_client` makes a client from its credentials for the brokers; it opens no connection yet. `own` is the login
    of the service itself. With `is_shared` all callers use one client with that login. `tokens` makes tokens for
    callers whose credentials cannot be passed on.
    """

    def __init__(
        self,
        open_client: Callable[[ClientSecurity], Client],
        own: ClientSecurity,
        *,
        is_shared: bool,
        tokens: Delegates | None = None,
        limits: ClientLimits | None = None,
    ) -> None:
        self._open_client = open_client
        self._own = own
        self._is_shared = is_shared
        self._tokens = tokens
        self._limits = limits or ClientLimits()
        self._entries: OrderedDict[tuple[str, bytes], _Entry[Client]] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    async def of(self, request: Request) -> Client:
        """The client of the caller, held until the request is over. Raises as `hold` does."""
        held = await self.hold(request.state.caller)
        request.state.at_end.append(held.release)
        return held.client

    async def hold(self, caller: Caller | None) -> Held[Client]:
        """Raises TooManyClientsError, NoBrokerLoginError, and OSError where a token has to be made and cannot."""
        key = self._key_of(caller)
        entry = self._entries.get(key)
        if entry is None:
            self._make_room(key)
            entry = self._entries[key] = _Entry(key)
        self._entries.move_to_end(key)
        entry.users += 1
        try:
            if entry.client is None:
                async with entry.opening:
                    if entry.client is None:
                        entry.client = await self._open(entry, caller)
                        if not self._has(entry):
                            self._begin_to_close(entry)
                if not self._has(entry):  # the service has ended during the creation of the token
                    raise TooManyClientsError("the service ends")
        except BaseException:
            self._leave(entry)
            raise
        return Held(entry.client, lambda: self._leave(entry))

    async def close(self) -> None:
        """Closes all of them, also those in use: the service ends."""
        if self._sweep is not None:
            self._sweep.cancel()
        for entry in [*self._entries.values()]:
            self._drop(entry)
        await asyncio.gather(*self._closing)

    # ------------------------------------------------------------------------------------ one client

    def _key_of(self, caller: Caller | None) -> tuple[str, bytes]:
        if self._is_shared:
            return _SHARED
        if caller is None or not caller.principal:
            raise NoBrokerLoginError("a login is needed for this")
        return (caller.principal, caller.key)

    async def _open(self, entry: _Entry[Client], caller: Caller | None) -> Client:
        if self._is_shared:
            return self._open_client(self._own)
        assert caller is not None, "it has a key"
        if caller.security is not None:
            return self._open_client(caller.security)
        if self._tokens is None:
            raise NoBrokerLoginError("the brokers cannot be asked on behalf of callers who log in this way")
        entry.delegated = await self._tokens.delegate(caller.principal)
        return self._open_client(entry.delegated.security)

    def _has(self, entry: _Entry[Client]) -> bool:
        return self._entries.get(entry.key) is entry

    def _leave(self, entry: _Entry[Client]) -> None:
        entry.users -= 1
        if entry.users or not self._has(entry):
            return
        if entry.client is None:  # it could not be opened
            del self._entries[entry.key]
            return
        entry.idle_since = asyncio.get_running_loop().time()
        if self._sweep is None:
            self._plan_sweep(self._limits.idle_s)

    # ------------------------------------------------------------------------------------ bounds

    def _make_room(self, key: tuple[str, bytes]) -> None:
        own = [entry for entry in self._entries.values() if entry.key[0] == key[0]]
        for entries, most in ((own, self._limits.most_per_principal), (self._entries.values(), self._limits.most)):
            if len(entries) < most:
                continue
            idle = next((entry for entry in entries if not entry.users), None)  # the least recently used
            if idle is None:
                raise TooManyClientsError("too many callers at the same time, try again later")
            self._drop(idle)

    def _plan_sweep(self, delay_s: float) -> None:
        self._sweep = asyncio.get_running_loop().call_later(delay_s, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep = None
        now = asyncio.get_running_loop().time()
        idle = [entry for entry in self._entries.values() if not entry.users and entry.key != _SHARED]
        for entry in idle:
            if now - entry.idle_since >= self._limits.idle_s:
                self._drop(entry)
        waiting = [entry.idle_since for entry in idle if entry.key in self._entries]
        if waiting:
            self._plan_sweep(max(0.0, min(waiting) + self._limits.idle_s - now))

    def _drop(self, entry: _Entry[Client]) -> None:
        del self._entries[entry.key]
        if entry.client is not None:  # a client that is being opened is closed by its opener
            self._begin_to_close(entry)

    def _begin_to_close(self, entry: _Entry[Client]) -> None:
        task = asyncio.get_running_loop().create_task(_close(entry), name="close a caller's client")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(entry: _Entry[Client]) -> None:
    """The token ends even if the client does not: otherwise the service would renew it for ever."""
    if entry.client is not None:
        await _end(entry.client.close)
    if entry.delegated is not None:
        await _end(entry.delegated.end)


async def _end(end: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S):
            await end()
    except Exception as error:  # noqa: BLE001  # whatever it is, the client is nobody's any more
        logger.warning("a caller's client did not close", extra={"reason": type(error).__name__})
