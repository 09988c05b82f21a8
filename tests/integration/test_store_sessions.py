"""What every store promises of watches, sessions, and calls that are made at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.cluster.store.interface import (
    Check,
    Create,
    Node,
    SessionState,
    Store,
    StoreError,
    StoreErrorKind,
)
from tests.integration.stores import MANY, Opener, refused, with_store


class Told:
    """What a watcher was told. Several changes may come as one call, and a call may come a little later."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, path: str) -> None:
        self.paths.append(path)
        self._news.set()

    async def after(self, change: Awaitable[object]) -> None:
        self._news.clear()
        await change
        await self._news.wait()


def test_watcher_is_told_when_node_or_children_change(opener: Opener) -> None:
    async def test(store: Store) -> None:
        told = Told()
        stop = store.watch("/a", told)
        await told.after(store.create("/a"))
        await told.after(store.create("/a/b"))
        await told.after(store.compare_and_set("/a", b"x", None))
        await told.after(store.delete("/a/b"))
        await told.after(store.delete("/a"))
        await told.after(store.ensure_path("/a/b"))
        assert set(told.paths) == {"/a"}
        stop()
        stop()
        count = len(told.paths)
        await store.compare_and_set("/a", b"y", None)
        await store.sync("/a")
        assert len(told.paths) == count

    with_store(opener, test)


def test_every_watcher_of_a_path_is_told_when_there_are_several(opener: Opener) -> None:
    async def test(store: Store) -> None:
        first, second, other = Told(), Told(), Told()
        stop = store.watch("/a", first)
        store.watch("/a", second)
        store.watch("/b", other)
        await second.after(first.after(store.create("/a")))
        stop()
        await second.after(store.compare_and_set("/a", b"x", None))
        await second.after(store.delete("/a"))
        assert len(first.paths) == 1
        assert other.paths == []

    with_store(opener, test)


def test_ephemeral_node_names_its_session_when_read(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/lasting")
        await store.create("/passing", b"data", ephemeral=True)
        assert await store.read_many(["/lasting", "/passing"]) == [Node(b"", 0), Node(b"data", 0, store.session_id)]

    with_store(opener, test)


def test_session_has_a_name_of_its_own_when_opened_again(opener: Opener) -> None:
    async def sessions() -> None:
        names = []
        for _ in range(3):
            store = await opener()
            names.append(store.session_id)
            await store.close()
        assert len(set(names)) == 3

    asyncio.run(sessions())


def test_session_has_ended_and_nobody_is_told_when_the_store_is_closed(opener: Opener) -> None:
    async def closed() -> None:
        store = await opener()
        told: list[SessionState] = []
        store.on_session(told.append)
        states = [store.session_state]
        await store.close()
        states.append(store.session_state)
        assert states == [SessionState.CONNECTED, SessionState.ENDED]
        assert told == []

    asyncio.run(closed())


def test_last_contact_is_when_the_question_was_asked_when_the_store_has_answered(opener: Opener) -> None:
    async def test(store: Store) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await store.sync("/")
        assert before <= store.last_contact <= loop.time()

    with_store(opener, test)


def test_calls_are_atomic_when_many_run_at_once(opener: Opener) -> None:
    async def test(store: Store) -> None:
        await store.create("/counter", b"0")

        async def try_to_increment() -> bool:
            node = await store.read("/counter")
            assert node is not None
            try:
                await store.compare_and_set("/counter", str(int(node.data) + 1).encode(), node.version)
            except StoreError as error:
                if error.kind is not StoreErrorKind.BAD_VERSION:
                    raise
                return False
            return True

        async def increment() -> None:
            while not await try_to_increment():
                pass

        await asyncio.gather(*(increment() for _ in range(10)))
        assert await store.read("/counter") == Node(b"10", 10)

    with_store(opener, test)


def test_both_calls_succeed_when_two_ensure_the_same_path_at_once(opener: Opener) -> None:
    async def test(store: Store) -> None:
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        await asyncio.gather(store.ensure_path("/x/y"), store.ensure_path("/x/y"))
        assert await store.read("/x/y") == Node(b"", 0)
        await writing

    with_store(opener, test)


def test_ensured_path_is_there_when_a_transaction_that_had_made_it_fails_meanwhile(opener: Opener) -> None:
    async def test(store: Store) -> None:
        writing = asyncio.ensure_future(store.transaction([*MANY, Check("/nothing", 0)]))
        await asyncio.sleep(0)
        await store.ensure_path("/a")
        with pytest.raises(StoreError):  # for the missing node, or for one that the other call has made before
            await writing
        assert await store.read("/a") == Node(b"", 0)

    with_store(opener, test)


def test_nodes_are_read_as_of_one_moment_when_a_transaction_waits_behind_the_reading(local: Opener) -> None:
    async def test(store: Store) -> None:
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        both = store.transaction([Create("/x"), Create("/y")])
        read, _ = await asyncio.gather(store.read_many(["/x", "/y"]), both)
        assert read == [None, None]
        await writing

    with_store(local, test)


def test_create_is_refused_and_leaves_nothing_when_the_store_is_closed_before_its_turn(opener: Opener) -> None:
    async def sessions() -> None:
        store = await opener()
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        await refused(StoreErrorKind.CLOSED, store.create("/passing", ephemeral=True))
        await asyncio.gather(writing, closing)
        again = await opener()
        assert await again.children("/") == ["a"]
        await again.close()

    asyncio.run(sessions())
