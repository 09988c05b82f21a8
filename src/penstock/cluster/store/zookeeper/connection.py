"""The session with ZooKeeper, seen from the event loop: its state, the calls in flight, and the last sign of the
server.

A call is refused at once while the session is not connected. When the connection is lost, each call in flight ends with
the error for its kind. Everything here runs in the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.cluster.store.interface import SessionListeners, SessionState, StoreError, StoreErrorKind
from penstock.cluster.store.zookeeper.errors import translate
from penstock.cluster.store.zookeeper.server_version import ask_version, is_too_old
from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
from penstock.core.extras import explained
from penstock.core.metrics.cluster_counters import StoreMetrics

if TYPE_CHECKING:
    from penstock.cluster.store.zookeeper.client import Connected, ZooKeeperClient

logger = logging.getLogger(__name__)

_CLIENT = "penstock.cluster.store.zookeeper.client"
_HEARTBEATS_PER_TIMEOUT = 8
# The share of the timeout after which a silent server is given up, so that there is time for another.
_PATIENCE = 2 / 3
# The longest wait of a close for calls in flight and for the server's answer. The session ends by itself later.
_CLOSING_S = 5.0

Answer = TypeVar("Answer")
Question = Callable[["ZooKeeperClient"], "asyncio.Future[Answer]"]


class ZooKeeperConnection:
    def __init__(self, settings: ZooKeeperSettings, on_connected: Callable[[], None], metrics: StoreMetrics) -> None:
        """Use `open`. `on_connected` is called after each connection, before the listeners."""
        self.metrics = metrics
        self.state = SessionState.SUSPENDED
        self.session_id = ""
        self.listeners = SessionListeners()
        self.client: ZooKeeperClient
        self._settings = settings
        self._on_connected = on_connected
        self._loop = asyncio.get_running_loop()
        self.last_contact = self._loop.time()
        self._window = asyncio.Semaphore(settings.max_in_flight)
        self._under_way: dict[asyncio.Future[Any], tuple[str, bool]] = {}  # path, and whether it is a change
        self._call_count = 0
        self._idle = asyncio.Event()  # set while no call is in flight
        self._idle.set()
        self._first = self._loop.create_future()  # until the first connection
        self._is_open = True
        self._is_refused = False  # the server refused our credentials, and so the session has ended
        self.timeout_s = settings.session_timeout_ms / 1000
        self._heartbeat: float | None = None  # the sending time of the unanswered heartbeat
        self._timer: asyncio.TimerHandle | None = None
        self._checking: asyncio.Future[None] | None = None  # the check of the server's version

    @classmethod
    async def open(
        cls,
        settings: ZooKeeperSettings,
        on_connected: Callable[[], None],
        on_watch: Callable[[str], None],
        metrics: StoreMetrics,
    ) -> ZooKeeperConnection:
        """Raises StoreError(UNAVAILABLE) when kazoo is missing, or no server answers in time."""
        connection = cls(settings, on_connected, metrics)
        loop = asyncio.get_running_loop()
        # Both in a thread, because they read files.
        try:
            module = await loop.run_in_executor(None, importlib.import_module, _CLIENT)
            tls = await loop.run_in_executor(None, module.tls_context, settings)
        except ImportError as error:
            told = explained(error, "zookeeper.connect") if isinstance(error, ModuleNotFoundError) else error
            detail = f"its client cannot be used: {told}"
            raise StoreError(StoreErrorKind.UNAVAILABLE, "zookeeper.connect", detail) from error
        except OSError as error:
            detail = f"a certificate or key cannot be read: {error}"
            raise StoreError(StoreErrorKind.UNAVAILABLE, "zookeeper.ssl", detail) from error
        connection.client = module.ZooKeeperClient(settings, tls, connection._connected, connection._lost, on_watch)
        connection.client.start()
        try:
            await asyncio.wait_for(connection._first, settings.connection_timeout_ms / 1000)
        except TimeoutError:
            reason = connection.client.last_error
            detail = f"no answer within {settings.connection_timeout_ms} ms{reason and f' ({reason})'}"
            raise StoreError(StoreErrorKind.UNAVAILABLE, ",".join(settings.connect.hosts), detail) from None
        finally:
            if connection.state is not SessionState.CONNECTED:
                connection._is_open = False
                await connection.client.stop(0)
        connection._beat()
        # No caller waits for the answer.
        connection._checking = asyncio.ensure_future(connection._check_version(tls))
        return connection

    async def _check_version(self, tls: ssl.SSLContext | None) -> None:
        server = self.client.server
        version = None if server is None else await asyncio.to_thread(ask_version, server, tls)
        if version is not None and is_too_old(version):
            logger.warning(
                "ZooKeeper %s has known holes through which strangers get in: use 3.9.2 or later",
                ".".join(map(str, version)),
            )

    @contextlib.contextmanager
    def call(self, path: str) -> Iterator[None]:
        """Surrounds all requests of a call. The close of the store waits for calls that have begun."""
        if not self._is_open:
            raise StoreError(StoreErrorKind.CLOSED, path)
        self._check_state(path)
        self._call_count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._call_count -= 1
            if not self._call_count:
                self._idle.set()

    async def ask(self, path: str, question: Question[Answer], *, is_change: bool, is_contact: bool) -> Answer:
        """The answer, inside of `call`. Raises StoreError. `is_contact`: only a server in contact with the others can
        have answered.
        """
        async with self._window:
            self._check_state(path)
            sent = self._loop.time()
            future = question(self.client)
            self._under_way[future] = path, is_change
            try:
                answer = await future
            except StoreError:
                raise
            except Exception as error:  # kazoo's; anything it raises means that there is no answer
                raise translate(error, path, is_change=is_change) from error
            finally:
                self._under_way.pop(future, None)
                self.metrics.request_latency_ms.observe((self._loop.time() - sent) * 1000)
        if is_contact:
            self.last_contact = max(self.last_contact, sent)
        return answer

    def _check_state(self, path: str) -> None:
        if self.state is SessionState.SUSPENDED:
            raise StoreError(StoreErrorKind.UNAVAILABLE, path)
        if self.state is SessionState.ENDED:
            raise self._ended(path)

    async def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()
        if self.state is SessionState.CONNECTED:
            try:
                await asyncio.wait_for(self._idle.wait(), _CLOSING_S)
            except TimeoutError:
                self._fail_all(SessionState.SUSPENDED)
        self.state = SessionState.ENDED
        if not await self.client.stop(_CLOSING_S):
            logger.warning("ZooKeeper could not be told that the session ends; it ends when its timeout is over")

    # ---- news of the connection

    def _fail_all(self, state: SessionState) -> None:
        """Fails the requests that the lost connection left without an answer, and those from the moment of its loss."""
        for future, (path, is_change) in list(self._under_way.items()):
            kind = StoreErrorKind.OUTCOME_UNKNOWN if is_change else StoreErrorKind.UNAVAILABLE
            if not future.done():
                error = self._ended(path) if state is SessionState.ENDED else StoreError(kind, path)
                future.set_exception(error)

    def _ended(self, path: str) -> StoreError:
        if self._is_refused:
            return StoreError(StoreErrorKind.UNAVAILABLE, path, "ZooKeeper refuses our credentials")
        return StoreError(StoreErrorKind.SESSION_ENDED, path)

    def _connected(self, connected: Connected) -> None:
        if not self._is_open:
            return
        self.session_id = connected.session_id
        self.timeout_s = connected.timeout_ms / 1000
        self.state = SessionState.CONNECTED
        if not self._first.done():
            self._first.set_result(None)
            if connected.timeout_ms != self._settings.session_timeout_ms:
                logger.warning(
                    "ZooKeeper gives the session a timeout of %d ms where %d ms were asked for: it has bounds of its "
                    "own, and a broker that dies is noticed after that time",
                    connected.timeout_ms,
                    self._settings.session_timeout_ms,
                )
            return
        logger.info("connected to ZooKeeper again, session %s", self.session_id)
        self._send_heartbeat()
        self._on_connected()
        self.listeners.tell(SessionState.CONNECTED)

    def _lost(self, state: SessionState, noticed_at: float, is_refused: bool) -> None:
        self._heartbeat = None  # kazoo may have dropped it silently
        self._is_refused = is_refused
        if not self._is_open:
            self._fail_all(state)
            return
        self.state = state
        if state is SessionState.ENDED:
            logger.warning("the session %s with ZooKeeper has ended", self.session_id)
            self.last_contact = max(self.last_contact, noticed_at)  # the next session begins later than this
        else:
            logger.warning("the connection to ZooKeeper is lost")
        self._fail_all(state)
        self.listeners.tell(state)

    # ---- the last sign

    def _beat(self) -> None:
        self._send_heartbeat()
        self._timer = self._loop.call_later(self.timeout_s / _HEARTBEATS_PER_TIMEOUT, self._beat)

    def _send_heartbeat(self) -> None:
        now = self._loop.time()
        if self.state is not SessionState.CONNECTED:
            return
        if self._heartbeat is not None:
            if now - self._heartbeat > self.timeout_s * _PATIENCE:
                # kazoo would see that too, if other requests did not count for it as a sign of life.
                self.client.drop()
            return
        self._heartbeat = now

        def answered(heartbeat: asyncio.Future[str]) -> None:
            if self._heartbeat == now:
                self._heartbeat = None
            if not heartbeat.cancelled() and heartbeat.exception() is None:
                self.last_contact = max(self.last_contact, now)

        self.client.sync(self._settings.connect.root or "/").add_done_callback(answered)
