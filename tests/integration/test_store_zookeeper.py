"""The store on a real ZooKeeper: lost connections, ended sessions, servers that are killed or stopped."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Node,
    SessionState,
    StoreError,
    StoreErrorKind,
)
from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.testing.processes import ZooKeeperEnsemble, ZooKeeperProcess, find_free_port
from penstock.testing.tcp_proxy import TcpProxy
from tests.integration.zookeeper import LONG_SESSION_MS, SESSION_TIMEOUT_MS, own_settings, settings_for

CONNECTED, SUSPENDED, ENDED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.ENDED


class States:
    """The states that a session went through, and a way to wait for the next."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.seen: list[SessionState] = []
        self._news = asyncio.Event()
        store.on_session(self._hear)

    def _hear(self, state: SessionState) -> None:
        self.seen.append(state)
        self._news.set()

    async def until(self, *states: SessionState) -> None:
        while tuple(self.seen[-len(states) :]) != states:
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def opened(settings: ZooKeeperSettings) -> AsyncIterator[ZooKeeperStore]:
    store = await ZooKeeperStore.open(settings)
    try:
        yield store
    finally:
        await store.close()


async def failed(call: Awaitable[object]) -> StoreErrorKind:
    with pytest.raises(StoreError) as error:
        await call
    return error.value.kind


def behind(
    proxy: TcpProxy, settings: ZooKeeperSettings, session_timeout_ms: int = LONG_SESSION_MS
) -> ZooKeeperSettings:
    """The same part of the tree, by way of the proxy."""
    return settings_for(f"127.0.0.1:{proxy.port}{settings.connect.root}", session_timeout_ms=session_timeout_ms)


@pytest.fixture
def own_server(tmp_path: Path, zookeeper: ZooKeeperProcess) -> Iterator[ZooKeeperProcess]:
    """A server that the test may kill; it is there whenever the shared one is."""
    server = ZooKeeperProcess(tmp_path / "zookeeper").start()
    yield server
    server.kill()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_session_goes_on_and_watchers_are_called_when_a_reset_connection_comes_back(
    zookeeper: ZooKeeperProcess,
) -> None:
    settings = own_settings(zookeeper)

    async def test() -> None:
        async with (
            TcpProxy(zookeeper.port) as proxy,
            opened(settings) as other,
            opened(behind(proxy, settings)) as store,
        ):
            states, session_id = States(store), store.session_id
            told = asyncio.Event()
            await store.create("/mine", ephemeral=True)
            store.watch("/a", lambda _: told.set())
            proxy.refuse()
            await states.until(SUSPENDED)
            contact = store.last_contact
            assert await failed(store.create("/b")) is StoreErrorKind.UNAVAILABLE
            assert await failed(store.read("/b")) is StoreErrorKind.UNAVAILABLE
            await other.create("/a")
            assert not told.is_set()
            assert store.last_contact == contact
            proxy.heal()
            await states.until(SUSPENDED, CONNECTED)
            await told.wait()
            told.clear()
            await store.sync("/")
            assert store.last_contact > contact
            assert await store.read_many(["/mine", "/b"]) == [Node(b"", 0, session_id), None]
            await other.compare_and_set("/a", b"x", None)
            await told.wait()  # the watch is set again

    run(test())


def test_session_ends_for_others_first_and_a_new_one_begins_when_the_client_is_cut_off(
    zookeeper: ZooKeeperProcess,
) -> None:
    settings = own_settings(zookeeper)

    async def test() -> None:
        async with (
            TcpProxy(zookeeper.port) as proxy,
            opened(settings) as other,
            opened(behind(proxy, settings, SESSION_TIMEOUT_MS)) as store,
        ):
            states, session_id = States(store), store.session_id
            gone = asyncio.Event()
            await store.create("/mine", ephemeral=True)
            other.watch("/mine", lambda _: gone.set())
            proxy.cut()
            assert await failed(store.create("/lost")) is StoreErrorKind.OUTCOME_UNKNOWN
            contact = store.last_contact
            await gone.wait()
            assert (states.seen, store.session_id) == ([SUSPENDED], session_id)
            assert store.last_contact == contact
            assert await other.children("/") == []
            proxy.reset()  # what was held up must not arrive
            proxy.heal()
            await states.until(SUSPENDED, ENDED, CONNECTED)
            assert store.session_id != session_id
            await store.create("/mine", ephemeral=True)
            assert await other.read("/mine") == Node(b"", 0, store.session_id)

    run(test())


@pytest.mark.parametrize("is_made", [False, True])
def test_outcome_is_unknown_when_the_answer_is_lost(zookeeper: ZooKeeperProcess, is_made: bool) -> None:
    settings = own_settings(zookeeper)

    async def test() -> None:
        async with (
            TcpProxy(zookeeper.port) as proxy,
            opened(settings) as other,
            opened(behind(proxy, settings)) as store,
        ):
            states, made = States(store), asyncio.Event()
            await store.create("/counter", b"0")
            other.watch("/counter", lambda _: made.set())
            await other.sync("/")
            (proxy.hold_answers if is_made else proxy.hold_requests)()
            writing = asyncio.ensure_future(store.compare_and_set("/counter", b"1", 0))
            reading = asyncio.ensure_future(store.read("/counter"))
            if is_made:
                await made.wait()
            else:
                await asyncio.sleep(0.05)  # it is on its way
            proxy.reset()
            proxy.heal()
            assert await failed(writing) is StoreErrorKind.OUTCOME_UNKNOWN
            assert await failed(reading) is StoreErrorKind.UNAVAILABLE
            await states.until(SUSPENDED, CONNECTED)
            await store.sync("/")
            assert await store.read("/counter") == (Node(b"1", 1) if is_made else Node(b"0", 0))

    run(test())


def test_every_write_is_kept_refused_or_told_unknown_when_the_server_is_killed_in_the_middle(
    own_server: ZooKeeperProcess,
) -> None:
    outcomes: dict[int, StoreErrorKind | None] = {}
    numbers = itertools.count()

    async def write_on(store: ZooKeeperStore) -> None:
        """Until it is told that something is wrong."""
        for number in numbers:
            try:
                await store.create(f"/{number}", b"x")
            except StoreError as error:
                outcomes[number] = error.kind
                return
            outcomes[number] = None
            if number == 300:
                own_server.process.kill()

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with opened(settings_for(f"{own_server.connect}/test", session_timeout_ms=LONG_SESSION_MS)) as store:
            states = States(store)
            await store.create("/mine", ephemeral=True)
            await asyncio.gather(*(write_on(store) for _ in range(20)))
            await states.until(SUSPENDED)
            own_server.kill()
            await loop.run_in_executor(None, own_server.start)
            await states.until(SUSPENDED, CONNECTED)
            await store.sync("/")
            there = {int(name) for name in await store.children("/") if name != "mine"}
            kept = {each for each, kind in outcomes.items() if kind is None}
            unknown = {each for each, kind in outcomes.items() if kind is StoreErrorKind.OUTCOME_UNKNOWN}
            refused = {each for each, kind in outcomes.items() if kind is StoreErrorKind.UNAVAILABLE}
            assert len(outcomes) == len(kept | unknown | refused)
            assert len(kept) > 200
            assert unknown
            assert kept <= there
            assert not refused & there
            assert there <= kept | unknown
            assert await store.read("/mine") == Node(b"", 0, store.session_id)

    run(test())


def test_session_goes_on_or_ends_and_the_store_works_when_a_stopped_server_continues(
    own_server: ZooKeeperProcess,
) -> None:
    async def test() -> None:
        async with opened(settings_for(own_server.connect)) as store:
            states = States(store)
            await store.create("/a")
            own_server.pause()
            assert await failed(store.compare_and_set("/a", b"x", 0)) is StoreErrorKind.OUTCOME_UNKNOWN
            await states.until(SUSPENDED)
            own_server.resume()
            while states.seen[-1] is not CONNECTED:
                await states.until(CONNECTED)
            await store.sync("/")
            node = await store.read("/a")
            assert node is not None
            await store.compare_and_set("/a", b"y", node.version)

    run(test())


@pytest.mark.parametrize("is_killed", [True, False])
def test_store_can_be_closed_when_the_server_is_away(own_server: ZooKeeperProcess, is_killed: bool) -> None:
    async def test() -> None:
        store = await ZooKeeperStore.open(settings_for(own_server.connect))
        states = States(store)
        if is_killed:
            own_server.kill()
        else:
            own_server.pause()
        await states.until(SUSPENDED)
        await store.close()
        assert await failed(store.read("/")) is StoreErrorKind.CLOSED

    run(test())


async def looked_up(store: ZooKeeperStore, path: str) -> Node | None:
    """What is there, as soon as a server tells."""
    while True:
        try:
            await store.sync(path)
            return await store.read(path)
        except StoreError as error:
            if error.kind is not StoreErrorKind.UNAVAILABLE:
                raise
            await asyncio.sleep(0.05)


def test_session_outlives_its_server_when_another_of_the_ensemble_takes_over(
    tmp_path: Path, zookeeper: ZooKeeperProcess
) -> None:
    async def test(ensemble: ZooKeeperEnsemble) -> None:
        async with opened(settings_for(f"{ensemble.connect}/test", session_timeout_ms=LONG_SESSION_MS)) as store:
            session_id = store.session_id
            await store.create("/mine", ephemeral=True)
            (leader,) = [server for server in ensemble.servers if "Mode: leader" in server.ask("srvr")]
            leader.kill()
            node = await looked_up(store, "/mine")
            assert node == Node(b"", 0, session_id)
            while node.version == 0:
                with contextlib.suppress(StoreError):
                    await store.compare_and_set("/mine", b"under another leader", 0)
                node = await looked_up(store, "/mine")
                assert node is not None
            assert node == Node(b"under another leader", 1, session_id)

    with ZooKeeperEnsemble(tmp_path) as ensemble:
        run(test(ensemble))


def test_watcher_is_told_when_another_session_changes_the_node(zookeeper: ZooKeeperProcess) -> None:
    settings = own_settings(zookeeper)

    async def test() -> None:
        async with opened(settings) as store, opened(settings) as other:
            told = asyncio.Event()
            store.watch("/a", lambda _: told.set())
            await store.read("/a")  # as watchers do; behind the watch
            for change in changes(other):
                told.clear()
                await change()
                await told.wait()
                await store.read("/a")  # behind the watch, which is set again

    def changes(other: ZooKeeperStore) -> list[Callable[[], Awaitable[object]]]:
        return [
            lambda: other.create("/a"),
            lambda: other.compare_and_set("/a", b"x", 0),
            lambda: other.create("/a/b"),
            lambda: other.transaction([CompareAndSet("/a", b"y"), Create("/a/c")]),
            lambda: other.delete("/a/b"),
            lambda: other.delete("/a/c"),
            lambda: other.delete("/a"),
        ]

    run(test())


def test_one_of_many_clients_wins_each_turn_when_all_compare_and_set(zookeeper: ZooKeeperProcess) -> None:
    settings = own_settings(zookeeper)

    async def increment(store: ZooKeeperStore) -> None:
        while True:
            node = await store.read("/counter")
            assert node is not None
            try:
                await store.compare_and_set("/counter", str(int(node.data) + 1).encode(), node.version)
            except StoreError as error:
                if error.kind is not StoreErrorKind.BAD_VERSION:
                    raise
            else:
                return

    async def test() -> None:
        stores = await asyncio.gather(*(ZooKeeperStore.open(settings) for _ in range(5)))
        await stores[0].create("/counter", b"0")
        await asyncio.gather(*(store.sync("/") for store in stores))
        await asyncio.gather(*(increment(store) for store in stores for _ in range(4)))
        assert await stores[0].read("/counter") == Node(b"20", 20)
        assert len({store.session_id for store in stores}) == 5
        await asyncio.gather(*(store.close() for store in stores))

    run(test())


def test_nodes_are_read_in_order_when_there_are_more_than_may_be_under_way(zookeeper: ZooKeeperProcess) -> None:
    async def test() -> None:
        async with opened(own_settings(zookeeper, max_in_flight=7)) as store:
            await store.transaction([Create(f"/{number}", str(number).encode()) for number in range(500)])
            paths = [f"/{number}" for number in range(600)]
            nodes = await store.read_many(paths)
            assert [node and int(node.data) for node in nodes] == [*range(500), *[None] * 100]

    run(test())


def test_error_says_who_was_asked_when_no_server_answers() -> None:
    port = find_free_port()

    async def test() -> None:
        with pytest.raises(StoreError, match=f"127.0.0.1:{port}: no answer within 300 ms.*refused"):
            await ZooKeeperStore.open(settings_for(f"127.0.0.1:{port}", connection_timeout_ms=300))

    run(test())


def test_log_says_so_when_the_server_gives_another_timeout_than_asked_for(
    zookeeper: ZooKeeperProcess, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        with caplog.at_level(logging.WARNING):
            async with opened(own_settings(zookeeper, session_timeout_ms=100)):
                pass

    run(test())
    assert "a timeout of 1000 ms where 100 ms were asked for" in caplog.text


def test_others_may_look_at_what_is_no_secret_and_change_nothing_when_access_lists_are_set(
    zookeeper: ZooKeeperProcess,
) -> None:
    settings = own_settings(zookeeper, sets_acl=True, digest="broker:secret")
    open_settings = settings_for(f"{zookeeper.connect}{settings.connect.root}")

    async def test() -> None:
        async with opened(settings) as store, opened(settings) as same, opened(open_settings) as other:
            await store.ensure_path("/config/users/alice")
            await store.create("/topics", b"x")
            await same.compare_and_set("/topics", b"y", 0)
            await other.sync("/")
            assert await other.read("/topics") == Node(b"y", 1)
            assert await failed(other.compare_and_set("/topics", b"z", None)) is StoreErrorKind.UNAVAILABLE
            assert await failed(other.read("/config/users/alice")) is StoreErrorKind.UNAVAILABLE
            with pytest.raises(StoreError) as error:
                await other.transaction([Check("/config", 0), CompareAndSet("/topics", b"z")])
            assert (error.value.path, error.value.is_refusal) == ("/topics", True)

    run(test())


def test_error_names_the_remedy_when_access_lists_are_set_without_a_user(zookeeper: ZooKeeperProcess) -> None:
    async def test() -> None:
        with pytest.raises(StoreError, match="needs a user that ZooKeeper knows"):
            await ZooKeeperStore.open(own_settings(zookeeper, sets_acl=True))

    run(test())


def test_time_of_each_request_is_counted_when_it_is_answered_or_refused(zookeeper: ZooKeeperProcess) -> None:
    async def test() -> None:
        metrics = StoreMetrics()
        store = await ZooKeeperStore.open(own_settings(zookeeper), metrics)
        before = sum(metrics.request_latency_ms.counts)
        await store.create("/a")
        assert await failed(store.create("/a")) is StoreErrorKind.NODE_EXISTS
        await store.read_many(["/a", "/b"])
        assert sum(metrics.request_latency_ms.counts) == before + 4
        assert metrics.request_latency_ms.total > 0
        await store.close()

    run(test())


def test_watcher_hears_once_of_a_node_whose_children_change_as_well_when_it_does_not_ask_for_them(
    zookeeper: ZooKeeperProcess,
) -> None:
    """As the log of the metadata: every change sets the node and adds a child."""
    settings = own_settings(zookeeper)

    async def test() -> None:
        async with opened(settings) as store, opened(settings) as other:
            await other.create("/log")
            states = States(store)
            told, news = [], asyncio.Event()

            def hear(path: str) -> None:
                told.append(path)
                news.set()

            store.watch("/log", hear, children=False)
            await store.read("/log")
            for number in range(5):
                news.clear()
                await other.transaction([CompareAndSet("/log", b"%d" % number), Create(f"/log/{number}")])
                await news.wait()
                await store.read("/log")
            await other.create("/log/of-nobody")
            await other.create("/end")
            end = asyncio.Event()
            store.watch("/end", lambda _: end.set())
            await store.read("/end")  # from the answer on the server knows of the watch
            await other.delete("/end")
            await end.wait()
            # After each connection all watchers are called. With children it would be twice for each change.
            assert 5 <= len(told) <= 6 + states.seen.count(CONNECTED)

    run(test())
