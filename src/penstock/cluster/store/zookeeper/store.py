"""The store of a cluster: ZooKeeper.

The interface's promises, and their implementation here:

- A change is one transaction of ZooKeeper's and is sent once. The caller finds out its outcome after a lost connection.
- ZooKeeper forgets watches when they have fired, and kazoo forgets them when the connection is lost. A watch is set
  again before its watcher is called, so that the watcher's own read comes behind it. After each connection all watches
  are set again and all watchers are called.
- `last_contact` is the sending time of the newest answered heartbeat or change. A heartbeat is a `sync`, eight in the
  time of a session's timeout. A plain read would not do: our server answers it also when it is cut off from the others,
  and cannot report to them then that our session lives.
- `read_many` is not of one moment: another client's change may come between two of its reads.
- Several reads at once are sent without a wait in between, but never more than `max_in_flight` are in flight: kazoo
  wakes its thread by one byte for each, through a buffer that holds about 280, and blocks the loop when it is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from penstock.cluster.store.interface import (
    ANY_VERSION,
    CompareAndSet,
    Create,
    Delete,
    Node,
    Operation,
    Result,
    SessionListener,
    SessionState,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
    Watcher,
    Watches,
    check_operation,
    check_path,
    check_transaction,
    path_and_parents,
)
from penstock.cluster.store.zookeeper.connection import ZooKeeperConnection
from penstock.cluster.store.zookeeper.errors import failure
from penstock.cluster.store.zookeeper.settings import ConnectString, ZooKeeperSettings
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS
from penstock.core.metrics.cluster_counters import StoreMetrics

_LIMIT = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS)
# The number of operations prepared in one turn of the loop: about 1 ms.
_OPERATIONS_PER_TURN = 200


class ZooKeeperStore:
    def __init__(self, settings: ZooKeeperSettings) -> None:
        """Use `open`."""
        self.paths = settings.connect
        self._max_in_flight = settings.max_in_flight
        self._watches = Watches()
        self.connection: ZooKeeperConnection

    @classmethod
    async def open(cls, settings: ZooKeeperSettings, metrics: StoreMetrics | None = None) -> ZooKeeperStore:
        """Makes the chroot of the connect string if it is missing. Raises StoreError(UNAVAILABLE)."""
        store = cls(settings)
        counted = metrics or StoreMetrics()
        store.connection = await ZooKeeperConnection.open(settings, store._watch_again, store._fired, counted)
        try:
            with store.connection.call("/"):
                for path in path_and_parents(store.paths.root):
                    await store._make(path)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_id(self) -> str:
        return self.connection.session_id

    @property
    def session_state(self) -> SessionState:
        return self.connection.state

    @property
    def last_contact(self) -> float:
        return self.connection.last_contact

    @property
    def session_timeout_s(self) -> float:
        return self.connection.timeout_s

    @property
    def transaction_limit(self) -> TransactionLimit | None:
        return _LIMIT

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        return self.connection.listeners.add(listener)

    async def sync(self, path: str) -> None:
        check_path(path)
        with self.connection.call(path):
            whole = self.paths.whole(path)
            await self.connection.ask(path, lambda client: client.sync(whole), is_change=False, is_contact=True)

    async def read(self, path: str) -> Node | None:
        check_path(path)
        with self.connection.call(path):
            return await self._read(path)

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        nodes: list[Node | None] = [None] * len(paths)
        numbered = iter(enumerate(paths))

        async def read_on() -> None:
            for number, path in numbered:
                nodes[number] = await self._read(path)

        with self.connection.call(paths[0] if paths else "/"):
            # As many at once as may be in flight. A task for each path would hold the loop while they are made.
            readers = [asyncio.ensure_future(read_on()) for _ in range(min(self._max_in_flight, len(paths)))]
            try:
                await asyncio.gather(*readers)
            finally:
                for each in readers:
                    each.cancel()  # those still running when one has failed
        return nodes

    async def children(self, path: str) -> list[str]:
        check_path(path)
        with self.connection.call(path):
            whole = self.paths.whole(path)
            names = await self.connection.ask(
                path, lambda client: client.children(whole), is_change=False, is_contact=False
            )
        return sorted(names)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        (created,) = await self.transaction([Create(path, data, ephemeral, sequence)])
        assert isinstance(created, str)
        return created

    async def ensure_path(self, path: str) -> None:
        check_path(path)
        with self.connection.call(path):
            for each in path_and_parents(path):
                await self._make(self.paths.whole(each))

    async def compare_and_set(self, path: str, data: bytes, expected_version: int | None) -> int:
        (version,) = await self.transaction([CompareAndSet(path, data, expected_version)])
        assert isinstance(version, int)
        return version

    async def delete(self, path: str, expected_version: int | None = ANY_VERSION) -> None:
        await self.transaction([Delete(path, expected_version)])

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        for operation in operations:
            check_operation(operation)
        check_transaction(operations, _LIMIT)
        with self.connection.call(operations[0].path if operations else "/"):
            answers = await self._commit(operations, [self.paths.whole(each.path) for each in operations])
        error = failure(answers, operations)
        if error is not None:
            raise error
        return [_result(self.paths, operation, answer) for operation, answer in zip(operations, answers, strict=True)]

    def watch(self, path: str, watcher: Watcher, *, children: bool = True) -> Callable[[], None]:
        remove = self._watches.add(path, watcher, children=children)
        self._arm(path)
        return remove

    async def close(self) -> None:
        await self.connection.close()

    async def _read(self, path: str) -> Node | None:
        whole = self.paths.whole(path)
        try:
            return await self.connection.ask(path, lambda client: client.get(whole), is_change=False, is_contact=False)
        except StoreError as error:
            if error.kind is StoreErrorKind.NO_NODE:
                return None
            raise

    async def _make(self, whole: str) -> None:
        """Makes one node; it may exist already, and its access list may forbid us to look."""
        operation = Create(self.paths.own(whole))
        error = failure(await self._commit([operation], [whole]), [operation])
        if error is not None and error.kind is not StoreErrorKind.NODE_EXISTS:
            raise error

    async def _commit(self, operations: Sequence[Operation], whole: Sequence[str]) -> Sequence[Any]:
        if not operations:
            return []
        client = self.connection.client
        prepared = client.new_transaction()
        for number, (operation, path) in enumerate(zip(operations, whole, strict=True)):
            if number and number % _OPERATIONS_PER_TURN == 0:
                await asyncio.sleep(0)
            client.add(prepared, operation, path)
        return await self.connection.ask(
            operations[0].path, lambda client: client.commit(prepared), is_change=True, is_contact=True
        )

    # ---- watches

    def _arm(self, path: str) -> None:
        if self.connection.state is SessionState.CONNECTED:
            self.connection.client.arm(self.paths.whole(path), children=self._watches.are_of_children(path))

    def _fired(self, whole: str) -> None:
        path = self.paths.own(whole)
        if path in self._watches.paths:
            self._arm(path)  # before its watchers read
            self._watches.tell({path})

    def _watch_again(self) -> None:
        for path in self._watches.paths:
            self._arm(path)
        self._watches.tell_all()


def _result(paths: ConnectString, operation: Operation, answer: Any) -> Result:
    match operation:
        case Create():
            return paths.own(answer)
        case CompareAndSet():
            version: int = answer.version
            return version
        case _:
            return None
