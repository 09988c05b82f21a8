"""kazoo's client, and the bridge from its threads to the event loop. No other module imports kazoo.

kazoo has three threads: one owns the connection, one runs completions, one runs watches. Our only code in them puts a
call into the loop's queue. Answers and changes of the connection's state both pass kazoo's queue of completions, so
they reach the loop in the order in which they happened: when the loop learns that the connection is lost, it has every
answer that came before.

kazoo fails the requests that wait for an answer when the connection is lost, and keeps requests that come during a
connection attempt until it is connected. It can keep only a call from the very moment of the loss, because the store
refuses calls as soon as it knows of the loss. Such a call is sent before any request after the next connection, so a
later read shows whether it was made.

We do not use kazoo's retries (they repeat writes of unknown outcome), its chroot (it must exist before) and its recipes
(they hide lost sessions).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import EXCEPTIONS, AuthFailedError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import SASL, Connect
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    make_acl,
    make_digest_acl_credential,
)

from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Delete,
    Node,
    Operation,
    SessionState,
)
from penstock.cluster.store.zookeeper.server_version import Server
from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
from penstock.core.sockets.host_names import can_be_known
from penstock.security.sasl.exchange import GSSAPI, LoginError, Step
from penstock.security.sasl.gssapi import GssapiCredentials

# kazoo logs each connection that it makes or loses; the store logs the important ones itself.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)
logger = logging.getLogger(__name__)

# The number of calls handed over in one turn of the loop: about 1 ms.
_CALLS_PER_TURN = 100
# The pauses before another connection: none at first, then longer pauses. A second at most: sessions may be that short.
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.05, 1.0
# The pause before another attempt after refused credentials.
_REVIVAL_S = 2.0
# Nodes that hold secrets: passwords, tokens, and the log of all metadata. Only the brokers' login reads them.
_SECRET = ("/config/users", "/config/brokers", "/delegation_token", "/penstock")
_ANY_VERSION = -1


class Connected(NamedTuple):
    session_id: str
    timeout_ms: int


class Handover:
    """Brings calls from other threads into the loop, in order, many in one turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._is_awaited = False

    def put(self, call: Callable[[], None]) -> None:
        """From any thread."""
        self._calls.append(call)
        if not self._is_awaited:
            self._is_awaited = True
            try:
                self._loop.call_soon_threadsafe(self._run)
            except RuntimeError:  # the loop is closed, and no call waits any more
                self._is_awaited = False

    def _run(self) -> None:
        self._is_awaited = False  # before the look: a later `put` asks for another turn
        try:
            for _ in range(min(len(self._calls), _CALLS_PER_TURN)):
                self._calls.popleft()()
        finally:
            if self._calls and not self._is_awaited:
                self._is_awaited = True
                self._loop.call_soon(self._run)


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no annotations
    """kazoo's threads, with less patience for a server that does not answer.

    Connections are made here and not by kazoo, which leaves sockets open whose handshake fails.
    """

    def __init__(self, patience_s: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.patience_s = patience_s
        self.last_error: Exception | None = None
        self.connection: socket.socket | None = None  # the newest connection
        self.server: Server | None = None  # the server of the connection
        self._tls = tls

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> socket.socket:
        # kazoo would wait for the whole timeout of the session, which is over then, with other servers unasked.
        patience_s = min(timeout or self.patience_s, self.patience_s)
        try:
            connection = socket.create_connection(address, patience_s)
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_hostname=hostname)
            except BaseException:
                connection.close()
                raise
        except Exception as error:
            self.last_error = error
            raise
        self.connection, self.server = connection, Server(address, hostname)
        return connection


def tls_context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    """Reads files. Raises OSError, of which ssl.SSLError is one."""
    tls = settings.tls
    if tls is None:
        return None
    context = ssl.create_default_context()
    context.check_hostname = tls.checks_host_name
    if tls.ca_file is not None:
        context.load_verify_locations(tls.ca_file)
    if tls.certificate_file is not None:
        # Without a password OpenSSL would ask on the terminal.
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password or "")
    return context


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Remembers the session timeout of the server, which kazoo forgets."""

    session_timeout_ms = 0
    # By Kerberos. kazoo's own way needs a second library for it, and knows no keytab.
    tickets: GssapiCredentials | None = None

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        if self.tickets is None:
            super()._authenticate_with_sasl(host, timeout)
            return
        exchange = self.tickets.begin(host)
        try:
            step: Step | None = exchange.begin()
            xid = 0
            while step is not None:
                xid += 1
                step = exchange.respond(self._show(step if isinstance(step, bytes) else step(), timeout, xid))
        except (LoginError, ConnectionDropped) as error:
            logger.error("the login at ZooKeeper failed: %s", error)
            raise AuthFailedError(str(error)) from error

    def _show(self, token: bytes, timeout: float, xid: int) -> bytes:
        self._submit(SASL(token), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.err:
            raise EXCEPTIONS[header.err]
        return bytes(SASL.deserialize(buffer, offset)[0] or b"")

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        answer, zxid = super()._invoke(min(timeout, self.handler.patience_s), request, xid)
        self.session_timeout_ms = answer.time_out
        return answer, zxid


class ZooKeeperClient:
    """Sends requests to ZooKeeper from the event loop. Paths are whole: they include the chroot of a connect string."""

    def __init__(
        self,
        settings: ZooKeeperSettings,
        tls: ssl.SSLContext | None,
        on_connected: Callable[[Connected], None],
        on_lost: Callable[[SessionState, float, bool], None],
        on_watch: Callable[[str], None],
    ) -> None:
        """The last three are called in the loop. `on_lost` gets the loop's time at which kazoo noticed, and whether our
        credentials were refused.
        """
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._handover = Handover(self._loop)
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._on_watch = on_watch
        self._is_stopped = threading.Event()
        hosts = settings.connect.hosts
        self._threads = _Threads(settings.session_timeout_ms / 1000 / max(2, len(hosts)), tls)
        self._kazoo = _new_kazoo(settings, self._threads)
        self._kazoo.add_listener(self._change_state)

    def start(self) -> None:
        """Begins to connect, and continues until `stop`. Does not block."""
        self._kazoo.start_async()

    async def stop(self, patience_s: float) -> bool:
        """Ends the session, where the server is reachable. False when that took too long: the end goes on by itself."""
        self._is_stopped.set()
        done = self._loop.create_future()

        def stop() -> None:
            try:
                self._kazoo.stop()
                self._kazoo.close()
            except Exception as error:  # noqa: BLE001  # a thread's end; kazoo raises bare exceptions here
                logger.info("the session with ZooKeeper was not ended properly: %s", error)
            self._handover.put(lambda: None if done.done() else done.set_result(None))

        threading.Thread(target=stop, name="penstock-zookeeper-stop", daemon=True).start()
        try:
            await asyncio.wait_for(done, patience_s)
        except TimeoutError:
            return False
        return True

    def drop(self) -> None:
        """Drops the connection, as if the server had closed it. kazoo makes another."""
        connection = self._threads.connection
        if connection is not None:
            with contextlib.suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def server(self) -> Server | None:
        """The connected server."""
        return self._threads.server

    @property
    def last_error(self) -> str:
        """The reason of the last failed attempt to connect, in words; empty without one."""
        error = self._threads.last_error
        return "" if error is None else str(error) or type(error).__name__

    # ---- questions; their errors are kazoo's, for `errors.translate`

    def get(self, path: str) -> asyncio.Future[Node]:
        return self._ask(self._kazoo.get_async(path), _to_node)

    def children(self, path: str) -> asyncio.Future[list[str]]:
        return self._ask(self._kazoo.get_children_async(path))

    def sync(self, path: str) -> asyncio.Future[str]:
        return self._ask(self._kazoo.sync_async(path))

    def new_transaction(self) -> Any:
        return self._kazoo.transaction()

    def add(self, transaction: Any, operation: Operation, path: str) -> None:
        match operation:
            case Create(_, data, ephemeral, sequence):
                transaction.create(path, data, self._acl(operation.path), ephemeral, sequence)
            case CompareAndSet(_, data, version):
                transaction.set_data(path, data, _ANY_VERSION if version is None else version)
            case Delete(_, version):
                transaction.delete(path, _ANY_VERSION if version is None else version)
            case Check(_, version):
                transaction.check(path, version)

    def commit(self, transaction: Any) -> asyncio.Future[Sequence[Any]]:
        return self._ask(transaction.commit_async())

    def set_access(self, path: str, own_path: str) -> asyncio.Future[Any]:
        """The node gets the list that a new node would get; `own_path` is its path for users of the store."""
        return self._ask(self._kazoo.set_acls_async(path, self._acl(own_path) or list(OPEN_ACL_UNSAFE)))

    def close_access(self, path: str) -> asyncio.Future[Any]:
        """Only the login of the brokers may read or change the node then."""
        return self._ask(self._kazoo.set_acls_async(path, list(CREATOR_ALL_ACL)))

    def is_guarded(self, path: str) -> asyncio.Future[bool]:
        """Whether the user of our digest may do everything with the node, and all others may only read it."""
        user, _, password = (self._settings.digest or "").partition(":")
        wanted = [make_acl("digest", make_digest_acl_credential(user, password), all=True), *READ_ACL_UNSAFE]

        def judge(answer: tuple[list[Any], Any]) -> bool:
            return sorted(answer[0]) == sorted(wanted)

        return self._ask(self._kazoo.get_acls_async(path), judge)

    def arm(self, path: str, *, children: bool) -> None:
        """`on_watch` is called once when the node changes, and once when the list of its children does, if requested.

        The answers are ignored: an error means that the connection is lost, or that there is no node and so no list of
        children. The first watch also works for a missing node, and fires when the node is made.
        """
        self._kazoo.exists_async(path, watch=self._watch)
        if children:
            self._kazoo.get_children_async(path, watch=self._watch)

    def _ask(self, question: Any, read: Callable[[Any], Any] | None = None) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        question.rawlink(lambda answered: self._handover.put(partial(_settle, future, answered, read)))
        return future

    def _acl(self, path: str) -> list[Any] | None:
        if not self._settings.sets_acl:
            return None
        is_secret = any(path == each or path.startswith(f"{each}/") for each in _SECRET)
        return list(CREATOR_ALL_ACL) if is_secret else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    # ---- news, in kazoo's threads

    def _watch(self, event: Any) -> None:
        if event.path is not None:  # without a path: the connection is lost, which its listener handles
            self._handover.put(partial(self._on_watch, event.path))

    def _change_state(self, state: str) -> None:
        now = self._loop.time()
        call: Callable[[], None]
        if state == KazooState.CONNECTED:
            session_id = f"{self._kazoo.client_id[0] & (2**64 - 1):x}"
            call = partial(self._on_connected, Connected(session_id, self._kazoo._connection.session_timeout_ms))
        else:
            lost = SessionState.SUSPENDED if state == KazooState.SUSPENDED else SessionState.ENDED
            call = partial(self._on_lost, lost, now, self._kazoo.client_state == KeeperState.AUTH_FAILED)
            if lost is SessionState.ENDED and self._kazoo.client_state != KeeperState.EXPIRED_SESSION:
                self._begin_revival()
        # Through the queue of completions, behind the answers that came before.
        news = self._threads.async_result()
        news.rawlink(lambda _: self._handover.put(call))
        news.set(None)

    def _begin_revival(self) -> None:
        """kazoo gives up when its credentials are refused, or on an error of its own. We do not."""
        if self._is_stopped.is_set():
            return

        def revive() -> None:
            if self._kazoo.client_state == KeeperState.AUTH_FAILED:
                logger.error("ZooKeeper refuses our credentials")
            if not self._is_stopped.wait(_REVIVAL_S):
                self._kazoo.stop()
                self._kazoo.start_async()

        threading.Thread(target=revive, name="penstock-zookeeper-revival", daemon=True).start()


def _to_node(answer: tuple[bytes | None, Any]) -> Node:
    data, status = answer
    owner = status.ephemeralOwner
    return Node(data or b"", status.version, f"{owner & (2**64 - 1):x}" if owner else None)


def _settle(future: asyncio.Future[Any], answered: Any, read: Callable[[Any], Any] | None) -> None:
    if future.done():
        return
    if not answered.successful():
        future.set_exception(answered.exception)
    else:
        future.set_result(answered.value if read is None else read(answered.value))


def _new_kazoo(settings: ZooKeeperSettings, threads: _Threads) -> Any:
    sasl = settings.sasl
    retry = KazooRetry(
        max_tries=-1, delay=_FIRST_RETRY_S, max_delay=_LONGEST_RETRY_S, sleep_func=SequentialThreadingHandler.sleep_func
    )
    kazoo = KazooClient(
        ",".join(settings.connect.hosts),
        timeout=settings.session_timeout_ms / 1000,
        handler=threads,
        auth_data=[("digest", settings.digest)] if settings.digest else None,
        connection_retry=retry,
        logger=_kazoo_logger,
    )
    # kazoo leaves out hosts that nobody knows when it connects. Its thread would end at a name that none can have.
    kazoo.hosts = [(host, port) for host, port in kazoo.hosts if can_be_known(host)]
    options = None
    if sasl is not None:
        given = {"mechanism": sasl.mechanism, "service": sasl.service}
        options = given | {k: v for k, v in (("username", sasl.username), ("password", sasl.password)) if v}
    # Replaces kazoo's own object, which its constructor makes without an option.
    connection = _Connection(kazoo, kazoo._conn_retry.copy(), logger=_kazoo_logger, sasl_options=options)
    if sasl is not None and sasl.mechanism == GSSAPI:
        connection.tickets = GssapiCredentials(sasl.service, sasl.username, sasl.keytab)
    kazoo._connection = connection
    return kazoo
