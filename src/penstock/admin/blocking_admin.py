"""The administration of one cluster for threads.

Each operation is that of `AsyncAdmin`, run on a loop in a thread of its own: `blocking` makes the method from the
coroutine, with its parameters and its type. Several threads may use one `Admin`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from penstock.admin.async_admin import AsyncAdmin
from penstock.admin.async_commits import AsyncCommits
from penstock.admin.async_nodes import AsyncNodes
from penstock.admin.async_security import AsyncSecurity
from penstock.admin.async_transactions import AsyncTransactions
from penstock.admin.look import ANSWER_TIMEOUT_S
from penstock.client.addresses import Address
from penstock.client.routes.links import ClientClosedError
from penstock.client.security import PLAINTEXT, SecuritySource
from penstock.core.loops import LoopThread

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Core = TypeVar("Core", covariant=True)


class Run(Protocol):
    def __call__(self, work: Coroutine[Any, Any, Result], /) -> Result: ...


class Blocking(Protocol[Core]):
    """What has operations for threads: the object with those for asyncio, and a way to run them."""

    @property
    def core(self) -> Core: ...

    @property
    def run(self) -> Run: ...


def blocking(
    operation: Callable[Concatenate[Core, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Blocking[Core], Parameters], Result]:
    def call(self: Blocking[Core], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self.run(operation(self.core, *args, **kwargs))

    functools.update_wrapper(call, operation)
    return call


class Commits:
    def __init__(self, core: AsyncCommits, run: Run) -> None:
        self.core = core
        self.run = run

    alter = blocking(AsyncCommits.alter)
    delete = blocking(AsyncCommits.delete)


class Nodes:
    def __init__(self, core: AsyncNodes, run: Run) -> None:
        self.core = core
        self.run = run

    views = blocking(AsyncNodes.views)
    ask = blocking(AsyncNodes.ask)


class Security:
    def __init__(self, core: AsyncSecurity, run: Run) -> None:
        self.core = core
        self.run = run

    acls = blocking(AsyncSecurity.acls)
    create_acls = blocking(AsyncSecurity.create_acls)
    delete_acls = blocking(AsyncSecurity.delete_acls)
    policies = blocking(AsyncSecurity.policies)
    delete_policy = blocking(AsyncSecurity.delete_policy)
    users = blocking(AsyncSecurity.users)
    set_passwords = blocking(AsyncSecurity.set_passwords)
    delete_passwords = blocking(AsyncSecurity.delete_passwords)
    quotas = blocking(AsyncSecurity.quotas)
    alter_quotas = blocking(AsyncSecurity.alter_quotas)
    tokens = blocking(AsyncSecurity.tokens)
    create_token = blocking(AsyncSecurity.create_token)
    renew_token = blocking(AsyncSecurity.renew_token)
    expire_token = blocking(AsyncSecurity.expire_token)


class Transactions:
    def __init__(self, core: AsyncTransactions, run: Run) -> None:
        self.core = core
        self.run = run

    find = blocking(AsyncTransactions.find)
    describe = blocking(AsyncTransactions.describe)
    open_in = blocking(AsyncTransactions.open_in)
    abort = blocking(AsyncTransactions.abort)


class Admin:
    """Use it in a `with` block, or call `close`. Raises what `AsyncAdmin` raises.

    One that nobody has any more closes itself. In a child of the process that made it, it is a closed one.
    """

    def __init__(self, make_core: Callable[[], AsyncAdmin]) -> None:
        """`make_core` is called on the loop that the core will live on."""
        self._is_closed = False
        self._thread = LoopThread("penstock-admin")
        try:
            self.core = self._thread.call(_make(make_core))
        except BaseException:
            self._thread.stop()
            raise
        self.commits = Commits(self.core.commits, self.run)
        self.nodes = Nodes(self.core.nodes, self.run)
        self.security = Security(self.core.security, self.run)
        self.transactions = Transactions(self.core.transactions, self.run)
        self._dropped = weakref.finalize(self, _close_soon, self._thread, self.core)
        self._dropped.atexit = False  # the thread does not outlive the process

    read = blocking(AsyncAdmin.read)
    read_wish = blocking(AsyncAdmin.read_wish)
    topics = blocking(AsyncAdmin.topics)
    moves = blocking(AsyncAdmin.moves)
    groups = blocking(AsyncAdmin.groups)
    offsets = blocking(AsyncAdmin.offsets)
    log_ends = blocking(AsyncAdmin.log_ends)
    configs = blocking(AsyncAdmin.configs)
    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    add_partitions = blocking(AsyncAdmin.add_partitions)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    move_replicas = blocking(AsyncAdmin.move_replicas)
    move_directories = blocking(AsyncAdmin.move_directories)
    delete_records = blocking(AsyncAdmin.delete_records)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    ask_controller = blocking(AsyncAdmin.ask_controller)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Work of the caller's own with `core`. A caller that is interrupted leaves nothing running. ConnectionError
        where another thread has closed the client, or closes it meanwhile.
        """
        try:
            begun = self._thread.begin(work)
        except RuntimeError:
            if self._thread.is_elsewhere:
                raise ClientClosedError("the client is of the process that forked this one: connect anew") from None
            raise ClientClosedError("the client was closed") from None
        try:
            return begun.result()
        except CancelledError:
            raise ClientClosedError("the client was closed") from None
        except BaseException:
            begun.cancel()
            raise

    def close(self) -> None:
        """A second time this does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._dropped.detach()
            if self._thread.is_elsewhere:
                return
            try:
                self._thread.call(self.core.close())
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close_soon(thread: LoopThread, core: AsyncAdmin) -> None:
    """Waits for nothing: Python may call this in any thread, the loop's own too."""
    if not thread.is_elsewhere:
        thread.begin(core.close()).add_done_callback(lambda _: thread.stop_soon())


async def _make(make_core: Callable[[], AsyncAdmin]) -> AsyncAdmin:
    return make_core()


def connect(
    servers: str | Sequence[Address],
    settings: Mapping[str, str] | None = None,
    *,
    security: SecuritySource = PLAINTEXT,
    client_id: str = "penstock-admin",
    timeout_s: float = ANSWER_TIMEOUT_S,
    patience_s: float = 0.0,
) -> Admin:
    """`servers` as HOST:PORT,HOST:PORT; the rest as `AsyncAdmin.of` has it. Opens nothing yet."""

    def make_core() -> AsyncAdmin:
        return AsyncAdmin.of(
            servers, settings, security=security, client_id=client_id, timeout_s=timeout_s, patience_s=patience_s
        )

    return Admin(make_core)
